// main() of every test, and doctest itself: compiled once, as that takes longer than most
// tests do.

// The second says what doctest concludes from the first where it is included once only: its
// header has been precompiled.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
