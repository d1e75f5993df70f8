package dev.octet.pipeline;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.pipeline.doctor.Course;
import dev.octet.pipeline.run.RunSummary;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/**
 * What an examination knows of a run before it computes anything.
 *
 * @param course its losses
 * @param steps of its checkpoints, ascending
 */
record ExaminedRun(Doctor.Subject.Run subject, Course course, List<Long> steps) {
    Path folder() {
        return subject.folder();
    }

    /** The last checkpoint of a step before this one, or 0. */
    long before(long step) {
        return steps.stream().filter(s -> s < step).reduce(0L, (_, s) -> s);
    }

    /** The first checkpoint of this step or a later one; else the last there is, or 0. */
    long from(long step) {
        return steps.stream().filter(s -> s >= step).findFirst().orElseGet(() -> before(Long.MAX_VALUE));
    }

    /** Numbers that it trains, as its manifest has them; 0 when it says nothing. */
    long trainedNumbers() throws IOException {
        JsonNode sessions = RunSummary.manifest(folder()).path("sessions");
        return sessions.path(sessions.size() - 1).path("trained_parameters").asLong();
    }
}
