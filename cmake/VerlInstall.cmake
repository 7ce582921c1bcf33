# What `make install` lays down: programs, the header of actors, topologies, and verl.pc by which an actor outside the
# tree is built. A shared object of an actor links nothing of ours: the program that loads it has the symbols.
include(GNUInstallDirs)

foreach(program verl-run verl-actor verl-spy verl-inject)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(FILES runtime/include/verl.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY topologies/ DESTINATION ${CMAKE_INSTALL_DATADIR}/verl/topologies
  PATTERN runs EXCLUDE PATTERN smollm2-135m EXCLUDE PATTERN .gitignore EXCLUDE)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(RELATIVE_PATH VERL_PC_UP /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/verl.pc.in ${CMAKE_BINARY_DIR}/verl.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/verl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
