/*
 * check.h
 *	  infer-engine check PATH: what a model is, or why it cannot be used, for people.
 */
#ifndef ENGINE_CHECK_H
#define ENGINE_CHECK_H

/* Returns the exit status: 0, or 1 after writing the error to standard error. */
extern int	check_model(const char *path, const char *options);

#endif							/* ENGINE_CHECK_H */
