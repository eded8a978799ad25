# Libraries of others. Debian ships fmt, spdlog, simdjson and prometheus-cpp only as shared objects; our
# programs must run where these are not installed, so scripts/third-party builds Debian's own sources of
# them once into the cache as archives. Everything else comes with an archive or is header-only.

if(NOT TESSERA_THIRD_PARTY)
  execute_process(COMMAND "${CMAKE_SOURCE_DIR}/scripts/third-party" --prefix
                  OUTPUT_VARIABLE TESSERA_THIRD_PARTY OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NOT EXISTS "${TESSERA_THIRD_PARTY}/done")
  message(FATAL_ERROR "the third-party archives are not built yet; run scripts/setup once")
endif()
list(PREPEND CMAKE_PREFIX_PATH "${TESSERA_THIRD_PARTY}")

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED PATHS "${TESSERA_THIRD_PARTY}" NO_DEFAULT_PATH)
find_package(spdlog 1.10 REQUIRED PATHS "${TESSERA_THIRD_PARTY}" NO_DEFAULT_PATH)
find_package(simdjson 3.0 REQUIRED PATHS "${TESSERA_THIRD_PARTY}" NO_DEFAULT_PATH)
find_package(prometheus-cpp REQUIRED COMPONENTS core PATHS "${TESSERA_THIRD_PARTY}" NO_DEFAULT_PATH)
find_package(tl-expected REQUIRED)

set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.81 REQUIRED COMPONENTS json url)

set(OPENSSL_USE_STATIC_LIBS ON)
find_package(OpenSSL 3 REQUIRED)

# yaml-cpp's CMake package names only the shared object.
add_library(yaml_cpp_static STATIC IMPORTED)
find_library(TESSERA_YAML_CPP NAMES libyaml-cpp.a REQUIRED)
set_target_properties(yaml_cpp_static PROPERTIES IMPORTED_LOCATION "${TESSERA_YAML_CPP}")

find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
