// main() of every test, and doctest itself: compiled once, because that takes longer than most
// tests do.

// doctest would define the second itself, but only where its header is first included; here that
// header is precompiled.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
