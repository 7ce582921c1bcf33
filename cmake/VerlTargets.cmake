# verl_library(NAME FILES… LINK LIBS…): one static library of ours.
function(verl_library name)
  cmake_parse_arguments(ARG "" "" "LINK;INCLUDE" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${ARG_INCLUDE})
  target_link_libraries(${name} PRIVATE verl_flags PUBLIC ${ARG_LINK})
endfunction()

# verl_program(NAME FILES… LINK LIBS…): one program in build/bin.
function(verl_program name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE verl_flags ${ARG_LINK})
endfunction()

# verl_fuzzer(NAME SOURCE READERS FILES…): a fuzzer, with READERS, the library of what reads models, text and data, where
# it includes that, else with the runtime alone.
function(verl_fuzzer name source readers)
  add_executable(${name} EXCLUDE_FROM_ALL ${source} ${ARGN})
  file(STRINGS ${source} of_readers REGEX "#include \"actors/")
  if(NOT of_readers)
    set(readers verl_runtime)
  endif()
  target_link_libraries(${name} PRIVATE verl_flags ${readers})
endfunction()
