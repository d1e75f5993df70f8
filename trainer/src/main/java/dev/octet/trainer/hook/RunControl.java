package dev.octet.trainer.hook;

/** Requests of a hook to its run. May be called from any thread. */
public interface RunControl {
    /** Ends the run after the current step, with a checkpoint. The first reason is kept. */
    void stop(RunEnd.Reason reason, String message);

    /** Requests a checkpoint after the current step. */
    void requestCheckpoint();
}
