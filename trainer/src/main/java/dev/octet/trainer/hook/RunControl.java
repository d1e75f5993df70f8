package dev.octet.trainer.hook;

/** What a hook can ask of the run. May be called by any thread. */
public interface RunControl {
    /** Ends the run after the step that is being done; a checkpoint is written. The first reason counts. */
    void stop(RunEnd.Reason reason, String message);

    /** Writes a checkpoint after the step that is being done. */
    void requestCheckpoint();
}
