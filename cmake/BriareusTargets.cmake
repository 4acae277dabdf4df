# Where reference data lies, for tests: $BRIAREUS_SHARED when configuring, else beside the checkout.
set(BRIAREUS_SHARED_DIR ${CMAKE_SOURCE_DIR}/../shared)
if(NOT "$ENV{BRIAREUS_SHARED}" STREQUAL "")
  set(BRIAREUS_SHARED_DIR $ENV{BRIAREUS_SHARED})
endif()

# br_library(NAME SOURCES ... [DEPS ...]): one static library of the project.
function(br_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC briareus_flags ${arg_DEPS})
endfunction()

# br_test(NAME SOURCES ... [DEPS ...] [LABELS ...] [TIMEOUT s]): one cmocka program, run by ctest with
# BRIAREUS_SHARED (reference data), BRIAREUS_BIN (built programs) and BRIAREUS_CUDA_PLUGIN (the emulated one) in its
# environment.
function(br_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE briareus_flags ${arg_DEPS} PkgConfig::CMOCKA)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  br_test_properties(${name} ${arg_TIMEOUT} "${arg_LABELS}")
endfunction()

# br_script_test(NAME COMMAND ... [LABELS ...] [TIMEOUT s]): an end-to-end test that is a script.
function(br_script_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "COMMAND;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  br_test_properties(${name} ${arg_TIMEOUT} "${arg_LABELS}")
endfunction()

function(br_test_properties name timeout labels)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} LABELS "${labels}"
    ENVIRONMENT "BRIAREUS_SHARED=${BRIAREUS_SHARED_DIR};BRIAREUS_SOURCE=${CMAKE_SOURCE_DIR};BRIAREUS_BIN=${CMAKE_BINARY_DIR}/bin;BRIAREUS_CUDA_PLUGIN=${CMAKE_BINARY_DIR}/bin/briareus-cudaemu.so")
endfunction()

# br_fuzzer(NAME SOURCES ... [DEPS ...]): a libFuzzer program with its seeds in tests/fuzz/corpus/NAME. Without
# clang the same source is built with a driver that replays the corpus, so that ctest always covers it.
function(br_fuzzer name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(BRIAREUS_FUZZ)
    add_executable(${name} ${arg_SOURCES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    add_executable(${name} ${arg_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.c)
    add_test(NAME ${name}_replay COMMAND ${name} ${corpus})
    br_test_properties(${name}_replay 60 "fuzz")
  endif()
  target_link_libraries(${name} PRIVATE briareus_flags ${arg_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()
