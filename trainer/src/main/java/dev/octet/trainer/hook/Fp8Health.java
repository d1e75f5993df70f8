package dev.octet.trainer.hook;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * Has FP8 tensors measured at fixed intervals and in the run's last step, and writes {@code fp8_health.jsonl}: one JSON object per measured
 * step and tensor. Tracks the age of each delayed scale and decides on warnings.
 */
public final class Fp8Health implements TrainingHook {
    /** Name of the file in the folder of a run. */
    public static final String NAME = "fp8_health.jsonl";

    /**
     * Share of clipped elements above which a tensor gets a warning. Delayed scaling always clips a few elements while a tensor grows;
     * training tolerates that.
     */
    public static final double MOST_CLIPPED = 0.01;

    /**
     * Largest ratio between an amax and the largest magnitude its scale can represent, in either direction. A scale is stale if it did not
     * change although the amax of the previous measurement was too large by this ratio, or if it is older than its amax history and the
     * amax is too small by this ratio.
     */
    public static final double MOST_DRIFT = 2;

    private static final String CHANGED = "changed.";

    private final long every;
    private final long lastStep;
    private final @Nullable StepLines lines;

    /** Step after which each slot's scale last changed; slots that never changed are missing. */
    private final Map<String, Long> changed = new TreeMap<>();

    /** Slots whose amax was too large for their scale, with the step of the measurement. */
    private final Map<String, Long> tooSmall = new HashMap<>();

    private final Set<String> warned = new HashSet<>();

    /**
     * Creates the hook.
     *
     * @param every steps between two measurements; 0 for none
     * @param lastStep the run's last step
     * @param file output; created at the start of the run if anything is to be measured
     */
    public Fp8Health(long every, long lastStep, Path file) {
        this(every, lastStep, new StepLines(file));
    }

    private Fp8Health(long every, long lastStep, @Nullable StepLines lines) {
        this.every = every;
        this.lastStep = lastStep;
        this.lines = lines;
    }

    /** The same for a rank that does not speak for all: the first one writes the file. */
    public static Fp8Health withoutFile(long every, long lastStep) {
        return new Fp8Health(every, lastStep, (StepLines) null);
    }

    @Override
    public boolean watchesFp8(long step) {
        return every > 0 && (step % every == 0 || step == lastStep);
    }

    @Override
    public boolean watchesScales() {
        return true;
    }

    @Override
    public boolean watchesAmaxes() {
        return false;
    }

    @Override
    public void scaleUpdated(long step, String slot, float before, float after) {
        changed.put(slot, step);
    }

    @Override
    public Map<String, String> remembered() {
        Map<String, String> all = new TreeMap<>();
        changed.forEach((slot, step) -> all.put(CHANGED + slot, Long.toString(step)));
        return all;
    }

    @Override
    public void recall(Map<String, String> remembered) {
        changed.clear();
        remembered.forEach((key, step) -> {
            if (key.startsWith(CHANGED)) {
                changed.put(key.substring(CHANGED.length()), Long.parseLong(step));
            }
        });
    }

    /** Steps since a delayed scale last changed, at a step from 1 on. */
    public long scaleAge(long step, String slot) {
        return step - changed.getOrDefault(slot, 0L);
    }

    @Override
    public void rolledBack(long step) throws IOException {
        tooSmall.clear();
        if (lines != null) {
            lines.cutAfter(step);
        }
    }

    /** Adds scale ages and warnings to a step's measurements. Must be called once per measured step, in order. */
    public Fp8Report report(long step, List<Fp8Tensor> measured) {
        List<Fp8Tensor> tensors = new ArrayList<>();
        List<Fp8Warning> warnings = new ArrayList<>();
        for (Fp8Tensor m : measured) {
            long age = m.historyLength() == 0 ? 0 : scaleAge(step, m.slot());
            Fp8Tensor tensor = m.withScaleAge(age);
            tensors.add(tensor);
            warn(tensor, Fp8Warning.Kind.CLIPPED, tensor.clippedShare() > MOST_CLIPPED, warnings);
            warn(tensor, Fp8Warning.Kind.STALE, isStale(step, tensor), warnings);
        }
        return new Fp8Report(step, tensors, warnings);
    }

    /** Warns once per problem; again only after it was gone in between. */
    private void warn(Fp8Tensor tensor, Fp8Warning.Kind kind, boolean wrong, List<Fp8Warning> warnings) {
        String key = kind + " " + tensor.slot();
        if (!wrong) {
            warned.remove(key);
        } else if (warned.add(key)) {
            warnings.add(new Fp8Warning(tensor, kind));
        }
    }

    private boolean isStale(long step, Fp8Tensor t) {
        if (t.historyLength() == 0) {
            return false;
        }
        Long before = tooSmall.remove(t.slot());
        // that step's update should have changed the scale
        boolean stayedTooSmall = before != null && t.scaleAge() > step - before;
        if (t.amax() > MOST_DRIFT * t.room()) {
            tooSmall.put(t.slot(), step);
        }
        boolean stayedTooLarge = t.scaleAge() > t.historyLength() && t.amax() > 0 && t.amax() * MOST_DRIFT < t.room();
        return stayedTooSmall || stayedTooLarge;
    }

    @Override
    public void runStarted(RunStart start, RunControl control) throws IOException {
        if (every > 0 && lines != null) {
            lines.open(start.firstStep());
        }
    }

    @Override
    public void fp8Measured(Fp8Report report) throws IOException {
        if (lines == null) {
            return;
        }
        for (Fp8Tensor t : report.tensors()) {
            ObjectNode line = StepLines.line(report.step())
                    .put("tensor", t.name())
                    .put("layer", t.layer())
                    .put("slot", t.slot())
                    .put("kind", t.tensor().name().toLowerCase(Locale.ROOT))
                    .put("format", t.format().name())
                    .put("elements", t.elements())
                    .put("clipped", t.clipped())
                    .put("underflowed", t.underflowed());
            StepLines.put(line, "amax", t.amax());
            StepLines.put(line, "scale", t.scale());
            line.put("scale_age", t.scaleAge());
            lines.write(line);
        }
    }

    @Override
    public void runEnded(RunEnd end) throws IOException {
        if (lines != null) {
            lines.close();
        }
    }
}
