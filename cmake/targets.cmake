# Functions that turn a folder into a target.
#
#   tessera_library(alloc SOURCES ledger.cc LINKS tessera::base tessera::topology PRIVATE_LINKS Boost::json)
#
# creates tessera::alloc from src/alloc. Only targets that link it can include its headers, as
# "alloc/ledger.h": each folder has its own include directory, which contains one symbolic link to
# it. So an #include against the dependencies in ARCHITECTURE.md does not compile. For a folder
# inside a folder, INCLUDE_AS is the path in #include: tessera_library(agent_gpu INCLUDE_AS
# agent/gpu ...).

include(GoogleTest)

# Tests and benchmarks run in the root of the checkout. So these paths are the same in every
# checkout, and tests hit the compiler cache from any of them.
set(TESSERA_TEST_PATHS TESSERA_SOURCE_DIR="." TESSERA_SHARED_DATA="../shared/data")

# Adds the given subfolders, if they exist and have a CMakeLists.txt. With TESSERA_TESTS=unit,
# libraries and programs are built only if a test needs them.
function(tessera_add_folders root)
  set(only_if_needed)
  if(TESSERA_TESTS STREQUAL "unit" AND NOT root STREQUAL "tests")
    set(only_if_needed EXCLUDE_FROM_ALL)
  endif()
  foreach(folder IN LISTS ARGN)
    if(EXISTS "${CMAKE_SOURCE_DIR}/${root}/${folder}/CMakeLists.txt")
      add_subdirectory("${root}/${folder}" ${only_if_needed})
    endif()
  endforeach()
endfunction()

# Most of the time of an unoptimised compilation goes into headers of other libraries. With
# TESSERA_PRECOMPILE (sanitizer builds; clang only) these are compiled once, as
# cmake/precompiled.cc, and tessera_use_precompiled(TARGET) makes the sources of a target start from
# the result. Headers of our own are not part of it, because they change often.
option(TESSERA_PRECOMPILE "Compile the headers of other libraries once for all targets" OFF)

set(tessera_precompiled_file "CMakeFiles/tessera_precompiled.dir/cmake/precompiled.cc.o")
if(TESSERA_PRECOMPILE)
  # An "object" that is a precompiled header: so it gets the same flags as every other source. It is
  # not worth a place in the compiler cache (80 MB), and contains the path of the checkout.
  add_library(tessera_precompiled OBJECT "${CMAKE_SOURCE_DIR}/cmake/precompiled.cc")
  target_compile_options(tessera_precompiled PRIVATE
    -x c++-header -fpch-instantiate-templates -Xclang -fno-pch-timestamp)
  target_compile_definitions(tessera_precompiled PRIVATE SIMDJSON_EXCEPTIONS=0)
  target_link_libraries(tessera_precompiled PRIVATE
    tessera_flags Boost::json Boost::url GTest::gmock fmt::fmt simdjson::simdjson)
  set_target_properties(tessera_precompiled PROPERTIES CXX_COMPILER_LAUNCHER "")
  # The compiler cache identifies the precompiled header by this file instead of its content, so
  # that sources hit the cache from any checkout: a checksum of what the compiler read.
  add_custom_command(OUTPUT "${CMAKE_BINARY_DIR}/${tessera_precompiled_file}.sum"
    COMMAND "${CMAKE_CXX_COMPILER}" -std=c++20 -x c++
      "-I$<JOIN:$<TARGET_PROPERTY:tessera_precompiled,INCLUDE_DIRECTORIES>,;-I>"
      "-D$<JOIN:$<TARGET_PROPERTY:tessera_precompiled,COMPILE_DEFINITIONS>,;-D>"
      "$<TARGET_PROPERTY:tessera_flags,INTERFACE_COMPILE_OPTIONS>"
      -E -dD -P "${CMAKE_SOURCE_DIR}/cmake/precompiled.cc" -o precompiled.txt
    COMMAND "${CMAKE_COMMAND}" -E sha256sum precompiled.txt > "${tessera_precompiled_file}.sum"
    COMMAND "${CMAKE_COMMAND}" -E rm precompiled.txt
    WORKING_DIRECTORY "${CMAKE_BINARY_DIR}"
    DEPENDS "$<TARGET_OBJECTS:tessera_precompiled>"
    COMMENT "Checksum of the precompiled header"
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(tessera_precompiled_sum DEPENDS "${CMAKE_BINARY_DIR}/${tessera_precompiled_file}.sum")
endif()

function(tessera_use_precompiled target)
  if(NOT TESSERA_PRECOMPILE)
    return()
  endif()
  # The path is relative to the build directory, where ninja runs the compiler, so that it is the
  # same in every checkout.
  target_compile_options(${target} PRIVATE -include-pch "${tessera_precompiled_file}")
  add_dependencies(${target} tessera_precompiled_sum)
  get_target_property(sources ${target} SOURCES)
  set_property(SOURCE ${sources} APPEND PROPERTY
    OBJECT_DEPENDS "${CMAKE_BINARY_DIR}/${tessera_precompiled_file}.sum")
endfunction()

function(tessera_library name)
  cmake_parse_arguments(ARG "" "INCLUDE_AS" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  if(NOT ARG_INCLUDE_AS)
    set(ARG_INCLUDE_AS ${name})
  endif()
  set(include_dir "${CMAKE_BINARY_DIR}/include/${name}")
  get_filename_component(above "${include_dir}/${ARG_INCLUDE_AS}" DIRECTORY)
  file(MAKE_DIRECTORY "${above}")
  file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${include_dir}/${ARG_INCLUDE_AS}" SYMBOLIC)

  add_library(tessera_${name} STATIC ${ARG_SOURCES})
  add_library(tessera::${name} ALIAS tessera_${name})
  target_include_directories(tessera_${name} PUBLIC "${include_dir}")
  target_link_libraries(tessera_${name} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS} tessera_flags)
  tessera_use_precompiled(tessera_${name})
endfunction()

# A program: build/<preset>/bin/<name>.
function(tessera_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} tessera_flags)
  if(TESSERA_STATIC)
    target_link_libraries(${name} PRIVATE tessera_old_glibc)
  endif()
  tessera_link_map(${name})
endfunction()

# For a program or library that is released: lets the linker write maps/<name>.map, from which
# scripts/sbom finds out what was linked into it.
function(tessera_link_map name)
  if(TESSERA_STATIC)
    file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/maps")
    target_link_options(${name} PRIVATE "LINKER:-Map=maps/${name}.map")
  endif()
endfunction()

# One test program per folder: tests/alloc -> alloc_test. Its tests have the label `unit` and may
# read ../shared/data (TESSERA_SHARED_DATA) if it exists. MUCH_WORK: would take minutes without
# optimisation or under a sanitizer, so it is part of the release build (and of dev) instead.
function(tessera_test name)
  cmake_parse_arguments(ARG "MUCH_WORK" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  set(builds all unit)
  if(ARG_MUCH_WORK)
    set(builds all binaries)
  endif()
  if(NOT TESSERA_TESTS IN_LIST builds)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  if(TESSERA_TESTS STREQUAL "binaries")  # bin/ has only programs that are released
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gmock GTest::gtest_main tessera_flags)
  target_compile_definitions(${name} PRIVATE ${TESSERA_TEST_PATHS})
  tessera_use_precompiled(${name})
  gtest_discover_tests(${name}
    TEST_PREFIX "${TESSERA_TEST_PREFIX}"
    WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
    DISCOVERY_MODE PRE_TEST
    NO_PRETTY_VALUES
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1;UBSAN_OPTIONS=print_stacktrace=1")
endfunction()

# A program for Google Benchmark: build/<preset>/bench/<name>. `make bench` runs it.
function(tessera_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} benchmark::benchmark tessera_flags)
  target_compile_definitions(${name} PRIVATE ${TESSERA_TEST_PATHS})
  add_dependencies(tessera_benchmarks ${name})
endfunction()

# A fuzz target. With TESSERA_SANITIZE=fuzzer it is a libFuzzer program (`make fuzz`). In every
# other build it is a unit test that replays its corpus, tests/fuzz/corpus/<name>, as a regression
# test.
function(tessera_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  set(corpus "${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name}")
  if(NOT TESSERA_TESTS MATCHES "all|unit|fuzz" OR TESSERA_SANITIZE STREQUAL "thread")
    return()  # parsers do not use threads
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/fuzz")
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} tessera_flags)
  if(TESSERA_SANITIZE STREQUAL "fuzzer")
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE "${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cc")
    add_test(NAME "${TESSERA_TEST_PREFIX}fuzz_corpus.${name}" COMMAND ${name} "${corpus}")
    set_tests_properties("${TESSERA_TEST_PREFIX}fuzz_corpus.${name}" PROPERTIES LABELS unit TIMEOUT 300)
  endif()
endfunction()

# Whether this build contains the tests of programs: release tests the released programs, dev its
# own.
set(TESSERA_TESTS_PROGRAMS FALSE)
if(TESSERA_TESTS MATCHES "all|binaries")
  set(TESSERA_TESTS_PROGRAMS TRUE)
endif()

# A test on a real cluster: cluster.<name>. Two cores can run two clusters at a time, so each test
# locks one of two lanes. ALONE locks both, for tests that inspect the whole machine.
function(tessera_cluster_test name)
  cmake_parse_arguments(ARG "ALONE" "TIMEOUT;ENVIRONMENT" "COMMAND" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  get_property(count GLOBAL PROPERTY tessera_cluster_tests)
  math(EXPR count "0${count} + 1")
  set_property(GLOBAL PROPERTY tessera_cluster_tests ${count})
  math(EXPR lane "${count} % 2")
  set(lanes cluster-${lane})
  if(ARG_ALONE)
    set(lanes "cluster-0;cluster-1")
  endif()
  add_test(NAME cluster.${name} COMMAND ${ARG_COMMAND})
  # The longest tests start first, and shorter ones fill the gaps.
  set_tests_properties(cluster.${name} PROPERTIES
    LABELS cluster SKIP_RETURN_CODE 77 TIMEOUT ${ARG_TIMEOUT} RESOURCE_LOCK "${lanes}" COST 100
    ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()

add_custom_target(tessera_benchmarks)
