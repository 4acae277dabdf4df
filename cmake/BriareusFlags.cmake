# Warnings, sanitizers and feature macros shared by every target of the project.
add_library(briareus_flags INTERFACE)
target_compile_definitions(briareus_flags INTERFACE _GNU_SOURCE)
target_include_directories(briareus_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(briareus_flags INTERFACE
  -Wall -Wextra -Wshadow -Wvla -Wconversion -Wno-sign-conversion
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers> # C sets the others to 0, and so does C++
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-enum-enum-conversion>
  -Wpointer-arith -Wformat=2 -Werror
  -fno-omit-frame-pointer -fno-math-errno -ffp-contract=off)
# -ffp-contract=off: exact mode needs one fixed rounding of every expression; kernels ask for fma by name.

if(BRIAREUS_SANITIZE)
  target_compile_options(briareus_flags INTERFACE -fsanitize=${BRIAREUS_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(briareus_flags INTERFACE -fsanitize=${BRIAREUS_SANITIZE})
endif()
if(BRIAREUS_COVERAGE)
  target_compile_options(briareus_flags INTERFACE --coverage)
  target_link_options(briareus_flags INTERFACE --coverage)
endif()
if(BRIAREUS_FUZZ)
  target_compile_options(briareus_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  target_link_options(briareus_flags INTERFACE -fsanitize=address,undefined)
endif()
