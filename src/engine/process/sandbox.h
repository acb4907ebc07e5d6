/*
 * sandbox.h
 *	  What the engine may still do once it is set up, as far as the kernel can enforce it:
 *	  make its socket, read the model cache, write packed models; read system libraries,
 *	  device nodes, /proc and /sys; no socket but Unix ones, no other program.
 *
 * To be called once, before any thread is started.
 */
#ifndef ENGINE_SANDBOX_H
#define ENGINE_SANDBOX_H

enum sandbox_right
{
	SANDBOX_READ = 1,				/* files and folders below it */
	SANDBOX_SOCKET,					/* also make a socket, and remove what is there */
	SANDBOX_WRITE					/* also make, write and remove files */
};

struct sandbox_folder
{
	const char *path;
	enum sandbox_right right;
};

/* folders: a path of NULL at the end.  Logs what is not available. */
extern void sandbox_enter(const struct sandbox_folder *folders);

#endif							/* ENGINE_SANDBOX_H */
