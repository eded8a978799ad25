# Language level, warnings, hardening and sanitizers for all targets.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

set(TESSERA_SANITIZE "" CACHE STRING "Sanitizers to build with: empty, address, thread or fuzzer")
set_property(CACHE TESSERA_SANITIZE PROPERTY STRINGS "" address thread fuzzer)
option(TESSERA_STATIC "Link everything except glibc and libgcc_s into the programs" OFF)
set(TESSERA_TEST_PREFIX "" CACHE STRING "Prefix of all test names, so that several builds can share one ctest run")

find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE)
  # Equal sources hit the cache from any checkout: paths below the source tree are rewritten, and
  # the debug information contains only relative paths (-ffile-prefix-map below). The last two
  # settings are for precompiled headers (targets.cmake).
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1 ${TESSERA_CCACHE})
endif()

add_library(tessera_flags INTERFACE)
target_compile_options(tessera_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Werror
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=
  -fno-omit-frame-pointer)

find_program(TESSERA_MOLD mold)
if(TESSERA_MOLD AND NOT TESSERA_STATIC)
  target_link_options(tessera_flags INTERFACE -fuse-ld=mold)
endif()

set(TESSERA_BRANCH_PROTECTION -fcf-protection)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(TESSERA_BRANCH_PROTECTION -mbranch-protection=standard)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(tessera_flags INTERFACE
    -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS
    -fstack-protector-strong -fstack-clash-protection ${TESSERA_BRANCH_PROTECTION}
    -ffunction-sections -fdata-sections)
  target_link_options(tessera_flags INTERFACE -pie -Wl,-z,relro,-z,now -Wl,-z,noexecstack -Wl,--gc-sections)
else()
  # Without optimisation simdjson's classes have another layout than in its library, which is
  # optimised.
  target_compile_definitions(tessera_flags INTERFACE _GLIBCXX_ASSERTIONS SIMDJSON_DEVELOPMENT_CHECKS=0)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # stable_sort of libstdc++ 12 calls a deprecated function, and clang reports that for our callers.
  target_compile_options(tessera_flags INTERFACE -Wno-deprecated-declarations)
endif()

if(TESSERA_STATIC)
  # libgcc_s stays shared: the static unwinder needs _dl_find_object, which is newer than
  # GLIBC_2.34.
  target_link_options(tessera_flags INTERFACE -static-libstdc++)
endif()

if(TESSERA_SANITIZE STREQUAL "address")
  set(TESSERA_SANITIZER_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(TESSERA_SANITIZE STREQUAL "thread")
  # TSan does not support the fences of Asio, which causes a warning, and warnings are errors.
  set(TESSERA_SANITIZER_FLAGS -fsanitize=thread)
  target_compile_definitions(tessera_flags INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
elseif(TESSERA_SANITIZE STREQUAL "fuzzer")
  set(TESSERA_SANITIZER_FLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
elseif(TESSERA_SANITIZE)
  message(FATAL_ERROR "TESSERA_SANITIZE is \"${TESSERA_SANITIZE}\"; use address, thread or fuzzer")
endif()
if(TESSERA_SANITIZER_FLAGS)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With sanitizers, g++ 12 reports false positives in Boost's optional. The release build keeps
    # the warning.
    target_compile_options(tessera_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
  # -fPIC also for programs, where CMake adds -fPIE: a precompiled header can be used only with the
  # flags it was compiled with.
  target_compile_options(tessera_flags INTERFACE ${TESSERA_SANITIZER_FLAGS} -fPIC)
  target_link_options(tessera_flags INTERFACE ${TESSERA_SANITIZER_FLAGS})
endif()

# tessera_optimised(TARGET): for targets whose tests would take minutes without optimisation. Under
# sanitizers these tests run fewer rounds instead.
function(tessera_optimised target)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT TESSERA_SANITIZE)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()
