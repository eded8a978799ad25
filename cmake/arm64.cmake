# Cross-builds for arm64 on an amd64 Debian with the packages of "scripts/setup arm64".
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(TESSERA_ARCH arm64)
# Otherwise pkg-config describes the libraries of the machine that compiles.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
