/*
 * sandbox.h
 *	  What the engine may still do once it is set up, as far as the kernel can enforce it:
 *	  write in its own folder, read system libraries, device nodes, /proc and /sys; no
 *	  socket but Unix ones, no other program.
 *
 * To be called once, before any thread is started.
 */
#ifndef ENGINE_SANDBOX_H
#define ENGINE_SANDBOX_H

/* folders: those that may be written, NULL at the end.  Logs what is not available. */
extern void sandbox_enter(const char *const *folders);

#endif							/* ENGINE_SANDBOX_H */
