/*
 * sandbox.h
 *	  What the engine may still do once it is set up, as far as the kernel can enforce it:
 *	  read and write in its own folder and in the model cache; read system libraries, device
 *	  nodes, /proc and /sys; no socket but Unix ones, no other program.
 *
 * Rights hold for a folder with all that is below it, now or later.  A right of a folder that is
 * removed is gone, and no other can be taken after the start: so what anybody may remove and
 * make again (the model cache, the packed models in it) lies in a folder with the right.
 *
 * To be called once, before any thread is started.
 */
#ifndef ENGINE_SANDBOX_H
#define ENGINE_SANDBOX_H

enum sandbox_right
{
	SANDBOX_READ = 1,				/* files and folders below it */
	SANDBOX_WRITE,					/* also make, write and remove files, and make folders and sockets */
	SANDBOX_CHANGE					/* also write files that are there */
};

struct sandbox_folder
{
	const char *path;
	enum sandbox_right right;
};

/* folders: a path of NULL at the end.  Logs what is not available. */
extern void sandbox_enter(const struct sandbox_folder *folders);

#endif							/* ENGINE_SANDBOX_H */
