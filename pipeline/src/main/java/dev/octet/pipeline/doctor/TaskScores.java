package dev.octet.pipeline.doctor;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.JsonFault;
import java.io.CharConversionException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Scores of downstream tasks, of the run and of its baseline: a JSON object with an entry for each task,
 * {@code {"arc_easy": {"baseline": 0.61, "run": 0.40, "stderr": 0.01}}}. A task is bad where the run scores lower by more than twice the
 * standard error of the difference, or by more than a fiftieth of the baseline where no error is given. {@code "lower_is_better": true} turns
 * a score around.
 *
 * @param tasks in the order of the file
 */
public record TaskScores(List<Task> tasks) {
    /** Up to so many bad tasks are those tasks; more of them, or all, are the export or the evaluation. */
    private static final int FEW = 2;

    private static final double SIGMAS = 2;
    private static final double LEAST_LOSS = 0.02;
    private static final long MAX_BYTES = 16L << 20;
    private static final String FORM =
            "give a JSON object as {\"arc_easy\": {\"baseline\": 0.61, \"run\": 0.60, \"stderr\": 0.01}}";

    /**
     * One task.
     *
     * @param stderr standard error of each of the two scores; 0 when it is not known
     * @param lost how much worse the run is than the baseline, in the unit of the score; below 0 when it is better
     */
    public record Task(String name, double baseline, double run, double stderr, double lost, boolean bad) {}

    public TaskScores {
        tasks = List.copyOf(tasks);
    }

    /**
     * Reads a file of scores.
     *
     * @throws InvalidDataException when it is not such an object, or has no task
     * @throws IOException when it cannot be read
     */
    public static TaskScores read(Path file) throws IOException {
        if (Files.size(file) > MAX_BYTES) {
            throw new InvalidDataException("scores of tasks in more than 16 MiB", file.toString(), FORM);
        }
        JsonNode json;
        byte[] bytes = Files.readAllBytes(file);
        try {
            json = new ObjectMapper().readTree(bytes);
        } catch (JsonProcessingException e) {
            JsonFault fault = JsonFault.of(e, bytes);
            throw new InvalidDataException("not JSON: " + fault.what(), fault.in(file.toString()), FORM, e);
        } catch (CharConversionException e) { // from Jackson, for bytes that look like UTF-32 but are not
            throw new InvalidDataException("not JSON: " + e.getMessage(), file.toString(), FORM, e);
        }
        if (!json.isObject() || json.isEmpty()) {
            throw new InvalidDataException("no scores of tasks", file.toString(), FORM);
        }
        List<Task> tasks = new ArrayList<>();
        for (Map.Entry<String, JsonNode> entry : json.properties()) {
            tasks.add(task(entry.getKey(), entry.getValue(), file));
        }
        return new TaskScores(tasks);
    }

    private static Task task(String name, JsonNode scores, Path file) {
        double baseline = number(name, scores, "baseline", file);
        double run = number(name, scores, "run", file);
        double stderr = scores.has("stderr") ? number(name, scores, "stderr", file) : 0;
        double lost = scores.path("lower_is_better").asBoolean() ? run - baseline : baseline - run;
        double allowed = stderr > 0 ? SIGMAS * Math.sqrt(2) * stderr : LEAST_LOSS * Math.abs(baseline);
        return new Task(name, baseline, run, stderr, lost, lost > allowed);
    }

    private static double number(String task, JsonNode scores, String key, Path file) {
        JsonNode value = scores.path(key);
        if (!value.isNumber() || !Double.isFinite(value.asDouble())) {
            throw new InvalidDataException("task '" + task + "' has no number '" + key + "'", file.toString(), FORM);
        }
        return value.asDouble();
    }

    /** Tasks that the run does worse. */
    public List<Task> bad() {
        return tasks.stream().filter(Task::bad).toList();
    }

    /** Whether nearly all tasks are worse: what was exported, or how it is evaluated, and not single abilities that training lost. */
    public boolean blamesExport() {
        int bad = bad().size();
        return bad > 0 && (bad == tasks.size() || (bad > FEW && 2 * bad > tasks.size()));
    }
}
