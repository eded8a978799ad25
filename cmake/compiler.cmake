# Language level, warnings, hardening and sanitizers; one place, for every target of the project.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

set(TESSERA_SANITIZE "" CACHE STRING "Sanitizers to build with: empty, address, thread or fuzzer")
set_property(CACHE TESSERA_SANITIZE PROPERTY STRINGS "" address thread fuzzer)
option(TESSERA_STATIC "Link everything but glibc and libgcc_s into the programs" OFF)
set(TESSERA_TEST_PREFIX "" CACHE STRING "Put before every test name, so that several builds can share one ctest run")

find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE)
  # Equal sources hit the cache from any checkout: paths below the source tree are rewritten, and the
  # debug information holds relative paths only (-ffile-prefix-map below).
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${TESSERA_CCACHE})
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

if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(tessera_flags INTERFACE
    -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS
    -fstack-protector-strong -fstack-clash-protection -fcf-protection
    -ffunction-sections -fdata-sections)
  target_link_options(tessera_flags INTERFACE -pie -Wl,-z,relro,-z,now -Wl,-z,noexecstack -Wl,--gc-sections)
else()
  # simdjson's classes look different without optimisation, and its library is compiled with it.
  target_compile_definitions(tessera_flags INTERFACE _GLIBCXX_ASSERTIONS SIMDJSON_DEVELOPMENT_CHECKS=0)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12's own stable_sort calls what it has declared deprecated, and clang blames the caller.
  target_compile_options(tessera_flags INTERFACE -Wno-deprecated-declarations)
endif()

if(TESSERA_STATIC)
  # libgcc_s stays shared: the static unwinder wants _dl_find_object, which is newer than GLIBC_2.34.
  target_link_options(tessera_flags INTERFACE -static-libstdc++)
endif()

if(TESSERA_SANITIZE STREQUAL "address")
  set(TESSERA_SANITIZER_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(TESSERA_SANITIZE STREQUAL "thread")
  # Asio's fences are unknown to TSan and would be a warning, which is an error here.
  set(TESSERA_SANITIZER_FLAGS -fsanitize=thread)
  target_compile_definitions(tessera_flags INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
elseif(TESSERA_SANITIZE STREQUAL "fuzzer")
  set(TESSERA_SANITIZER_FLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
elseif(TESSERA_SANITIZE)
  message(FATAL_ERROR "TESSERA_SANITIZE is \"${TESSERA_SANITIZE}\"; use address, thread or fuzzer")
endif()
if(TESSERA_SANITIZER_FLAGS)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Sanitizers' own code confuses g++ 12's flow analysis: it blames Boost's optional. The release
    # build keeps the warning.
    target_compile_options(tessera_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_compile_options(tessera_flags INTERFACE ${TESSERA_SANITIZER_FLAGS})
  target_link_options(tessera_flags INTERFACE ${TESSERA_SANITIZER_FLAGS})
endif()

# For the few that compute much: without optimisation their tests would take minutes. Sanitizers see fewer rounds instead.
function(tessera_optimised target)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT TESSERA_SANITIZE)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()
