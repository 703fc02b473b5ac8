// main() of every test, and doctest itself: compiled once, as that takes longer than most
// tests do.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
