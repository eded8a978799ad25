#include "extender/extender.h"

int main(int argc, char** argv) {
  return tessera::extender::run(argc, argv);
}
