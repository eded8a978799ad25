# How a folder becomes a target.
#
#   tessera_library(alloc SOURCES ledger.cc LINKS tessera::base tessera::topology PRIVATE_LINKS Boost::json)
#
# makes tessera::alloc from src/alloc. Its headers are reachable as "alloc/ledger.h" by those who link it and
# by nobody else: each folder gets an include directory of its own that holds one symbolic link to it, so an
# #include against the direction of ARCHITECTURE.md does not compile. A folder inside a folder says by INCLUDE_AS under
# which name it is reached: tessera_library(agent_gpu INCLUDE_AS agent/gpu ...).

include(GoogleTest)

# Tests and benchmarks run in the root of the checkout, so these are the same in every checkout and compiled
# tests hit the compiler cache from any of them.
set(TESSERA_TEST_PATHS TESSERA_SOURCE_DIR="." TESSERA_SHARED_DATA="../shared/data")

# Adds those of the named subfolders that exist and have something to build. Where only tests are wanted,
# libraries and programs are built when a test needs them.
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

set(TESSERA_TOGETHER 1 CACHE STRING "How many sources of a target are compiled as one")

# Most of the time of a compilation goes into headers that all sources of a folder share. Where nothing depends on how a
# program is cut into pieces (under a sanitizer), several sources are compiled as one: tessera_together(out alloc a.cc b.cc ...)
# gives the files to compile. Paths in them are relative, so that they are the same in every checkout.
function(tessera_together out name)
  if(TESSERA_TOGETHER EQUAL 1)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(files)
  set(text)
  set(count 0)
  set(directory "${CMAKE_BINARY_DIR}/together")
  list(LENGTH ARGN left)
  foreach(source IN LISTS ARGN)
    math(EXPR left "${left} - 1")
    get_filename_component(path "${source}" ABSOLUTE)
    file(RELATIVE_PATH path "${directory}" "${path}")
    string(APPEND text "#include \"${path}\"\n")
    math(EXPR count "${count} + 1")
    if(count EQUAL TESSERA_TOGETHER OR left EQUAL 0)
      list(LENGTH files number)
      set(file "${directory}/${name}_${number}.cc")
      file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
      list(APPEND files "${file}")
      set(text)
      set(count 0)
    endif()
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

function(tessera_library name)
  cmake_parse_arguments(ARG "" "INCLUDE_AS" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  if(NOT ARG_INCLUDE_AS)
    set(ARG_INCLUDE_AS ${name})
  endif()
  tessera_together(sources ${name} ${ARG_SOURCES})
  set(include_dir "${CMAKE_BINARY_DIR}/include/${name}")
  get_filename_component(above "${include_dir}/${ARG_INCLUDE_AS}" DIRECTORY)
  file(MAKE_DIRECTORY "${above}")
  file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${include_dir}/${ARG_INCLUDE_AS}" SYMBOLIC)

  add_library(tessera_${name} STATIC ${sources})
  add_library(tessera::${name} ALIAS tessera_${name})
  target_include_directories(tessera_${name} PUBLIC "${include_dir}")
  target_link_libraries(tessera_${name} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS} tessera_flags)
endfunction()

# A program: build/<preset>/bin/<name>.
function(tessera_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} tessera_flags)
  if(TESSERA_STATIC)
    target_link_libraries(${name} PRIVATE tessera_old_glibc)
  endif()
endfunction()

# One test program a folder: tests/alloc -> alloc_test. Its tests carry the label `unit` and may read
# ../shared/data where it exists (TESSERA_SHARED_DATA). MUCH_WORK: takes minutes without optimisation or under a
# sanitizer, so it is part of the release build, and of dev.
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
  tessera_together(sources ${name} ${ARG_SOURCES})
  add_executable(${name} ${sources})
  if(TESSERA_TESTS STREQUAL "binaries")  # not among the programs that ship
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gmock GTest::gtest_main tessera_flags)
  target_compile_definitions(${name} PRIVATE ${TESSERA_TEST_PATHS})
  gtest_discover_tests(${name}
    TEST_PREFIX "${TESSERA_TEST_PREFIX}"
    WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
    DISCOVERY_MODE PRE_TEST
    NO_PRETTY_VALUES
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1;UBSAN_OPTIONS=print_stacktrace=1")
endfunction()

# A benchmark on Google Benchmark: build/<preset>/bench/<name>, run by `make bench`.
function(tessera_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} benchmark::benchmark tessera_flags)
  target_compile_definitions(${name} PRIVATE ${TESSERA_TEST_PATHS})
  add_dependencies(tessera_benchmarks ${name})
endfunction()

# A fuzz target. With TESSERA_SANITIZE=fuzzer it is a libFuzzer program (`make fuzz`); in every other build
# it replays its corpus, tests/fuzz/corpus/<name>, as an ordinary unit test, so that a finding stays mended.
function(tessera_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  set(corpus "${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name}")
  if(NOT TESSERA_TESTS MATCHES "all|unit|fuzz" OR TESSERA_SANITIZE STREQUAL "thread")
    return()  # a parser has no threads
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

# Where tests of programs belong: the release build tries what ships, and dev tries its own.
set(TESSERA_TESTS_PROGRAMS FALSE)
if(TESSERA_TESTS MATCHES "all|binaries")
  set(TESSERA_TESTS_PROGRAMS TRUE)
endif()

# A test on a real cluster: cluster.<name>. Two clusters at a time are what two cores bear, so each test has one of
# two lanes; with ALONE it has both, for tests that look at the whole machine.
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
  # They take longest: first come, so that what is short fills the gaps.
  set_tests_properties(cluster.${name} PROPERTIES
    LABELS cluster SKIP_RETURN_CODE 77 TIMEOUT ${ARG_TIMEOUT} RESOURCE_LOCK "${lanes}" COST 100
    ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()

add_custom_target(tessera_benchmarks)
