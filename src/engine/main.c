/*
 * main.c
 *	  infer-engine; see serve.c.
 */
#include "process/serve.h"

int
main(int argc, char **argv)
{
	return engine_main(argc, argv);
}
