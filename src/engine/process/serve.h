/*
 * serve.h
 *	  The program itself, in the library so that a test can link it with kinds of its own.
 */
#ifndef ENGINE_SERVE_H
#define ENGINE_SERVE_H

extern int	engine_main(int argc, char **argv);

#endif							/* ENGINE_SERVE_H */
