# Language level, warnings and sanitizers that every target of ours gets.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(verl_flags INTERFACE)
target_compile_definitions(verl_flags INTERFACE _GNU_SOURCE VERL_VERSION="${PROJECT_VERSION}")
if(NOT VERL_TAP)
  target_compile_definitions(verl_flags INTERFACE VERL_NO_TAP)
endif()
target_compile_options(verl_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Werror -fno-math-errno
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>)
if(VERL_SANITIZE)
  # A finding ends the program, so that no run passes with one.
  target_compile_options(verl_flags INTERFACE
    -fsanitize=${VERL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(verl_flags INTERFACE -fsanitize=${VERL_SANITIZE})
endif()
