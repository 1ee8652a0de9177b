# Packages that addnorm is built from; README lists their Debian names.
option(ADDNORM_TESTS "build the tests" OFF)
option(ADDNORM_BENCH "build the benchmarks" OFF)
set(ADDNORM_SANITIZE "" CACHE STRING "value of -fsanitize=, empty for none")

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(dnnl REQUIRED CONFIG)
find_package(hwy REQUIRED CONFIG)
find_package(PkgConfig REQUIRED)
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
if(ADDNORM_TESTS)
  find_package(GTest REQUIRED)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(addnorm_options INTERFACE)
# gcc 12 reports a false -Wrestrict on std::string at -O3.
target_compile_options(addnorm_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
  -Werror -Wno-restrict)
set(CMAKE_CXX_FLAGS_RELEASE "-O3")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -fno-omit-frame-pointer")
if(ADDNORM_SANITIZE)
  add_compile_options(-fsanitize=${ADDNORM_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ADDNORM_SANITIZE})
  add_compile_definitions(ADDNORM_FEWER_SIMD_TARGETS)
endif()
