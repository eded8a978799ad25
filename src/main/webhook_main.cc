#include "webhook/webhook.h"

int main(int argc, char** argv) {
  return tessera::webhook::run(argc, argv);
}
