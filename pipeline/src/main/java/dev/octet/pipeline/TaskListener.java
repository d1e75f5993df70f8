package dev.octet.pipeline;

/** Hears how far a job is, on any of its threads but by one of them at once. What it throws ends the job. */
@FunctionalInterface
public interface TaskListener {
    /** Nobody listens. */
    TaskListener NONE = (task, done, total, unit) -> {};

    /**
     * Called again and again while a task continues. Another name begins another task.
     *
     * @param task what is being done, as "calibrating"
     * @param done how much of it is done, 0 to {@code total}
     * @param total all of it; 0 when unknown
     * @param unit of both, as "samples" or "bytes"
     */
    void progress(String task, long done, long total, String unit);
}
