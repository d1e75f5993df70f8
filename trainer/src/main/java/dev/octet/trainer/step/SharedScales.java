package dev.octet.trainer.step;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankGroups;
import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Fetched;
import dev.octet.trainer.op.fp8.AmaxUpdate;
import dev.octet.trainer.op.fp8.QuantizeFp8;
import dev.octet.trainer.op.fp8.WindowUpdate;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Predicate;

/**
 * The scales of FP8 tensors that follow from several micro-batches, of a run on ranks: they follow from those of all ranks that compute other samples, or other parts of the same layers. Transformer Engine's delayed scales are due once all ranks have computed a
 * micro-batch (its {@code reduce_amax}: the largest amax of all), MS-AMP's windows once the step ends. A process that plays all ranks does the same, so that both have the same bytes.
 */
final class SharedScales implements AutoCloseable {
    private final int ranks;
    private final RankGroups groups;
    private final boolean played;
    private final PersistentBuffers memory;
    private final Executable update;
    /** Amax histories, whose first element is pending. */
    private final List<Value> histories;
    /** What casts record for an export: that of the last micro-batch stays. */
    private final List<Value> recorded;

    private final Map<Value, Windowed> windows;

    /** A window's multiplier and rule. */
    private record Windowed(Value quantScale, WindowedScale rule) {}

    /**
     * Those of a training program.
     *
     * @param phases those after whose end they are due
     * @param used names of the states that this rank's steps use
     * @param ranks of the run
     * @param groups all of them, or one process that plays them
     */
    SharedScales(
            Program training,
            Set<Phase> phases,
            Predicate<String> used,
            int ranks,
            PersistentBuffers memory,
            RankGroups groups) {
        this.ranks = ranks;
        this.groups = groups;
        this.played = groups.stage().isAlone();
        this.memory = memory;
        Map<String, Value> pending = new LinkedHashMap<>();
        ProgramBuilder builder = new ProgramBuilder();
        Map<Value, Windowed> found = new LinkedHashMap<>();
        Map<String, Value> amaxes = new LinkedHashMap<>();
        for (Step s : training.steps()) {
            boolean isOwn = phases.contains(s.phase())
                    && s.operands().stream().anyMatch(v -> v.role() == ValueRole.STATE && used.test(v.name()));
            if (!isOwn) {
                continue;
            }
            if (s.op() instanceof AmaxUpdate op) {
                List<Value> states = new ArrayList<>();
                List<AmaxUpdate.Slot> slots = new ArrayList<>();
                for (int i = 0; i < op.slots().size(); i++) {
                    Value quantScale = Objects.requireNonNull(s.inputs().get(2 * i));
                    Value history = Objects.requireNonNull(s.inputs().get(2 * i + 1));
                    if (used.test(quantScale.name())) {
                        slots.add(op.slots().get(i));
                        states.add(builder.state(quantScale.name(), quantScale.type(), initial(training, quantScale)));
                        states.add(builder.state(history.name(), history.type(), initial(training, history)));
                        pending.put(history.name(), states.getLast());
                    }
                }
                builder.step(Phase.UPDATE, s.node(), new AmaxUpdate(slots, op.fused()), List.copyOf(states), states);
            } else if (s.op() instanceof QuantizeFp8 op && op.records()) {
                Value amax = Objects.requireNonNull(s.outputs().getLast());
                amaxes.put(amax.name(), amax);
            }
            WindowUpdate.Windowed windowed = WindowUpdate.of(s.op());
            if (windowed != null
                    && used.test(Objects.requireNonNull(s.inputs().get(windowed.window()))
                            .name())) {
                found.putIfAbsent(
                        Objects.requireNonNull(s.inputs().get(windowed.window())),
                        new Windowed(
                                Objects.requireNonNull(s.inputs().get(windowed.quantScale())),
                                windowed.slot().rule()));
            }
        }
        histories = List.copyOf(pending.values());
        recorded = List.copyOf(amaxes.values());
        windows = found;
        update = memory.load(builder.build());
    }

    private static float[] initial(Program training, Value state) {
        List<Float> elements = Objects.requireNonNull(training.initialStates().get(state), state.name());
        float[] all = new float[elements.size()];
        for (int i = 0; i < all.length; i++) {
            all[i] = elements.get(i);
        }
        return all;
    }

    /** A training program without the updates that are due after those of all ranks. */
    static Program without(Program training) {
        return training.with(
                training.values(),
                training.steps().stream()
                        .filter(s -> !(s.op() instanceof AmaxUpdate))
                        .toList());
    }

    /**
     * After a micro-batch of this process.
     *
     * @param microBatch its number among those of this process in the step, from 0
     * @param isLast whether it is the step's last one
     */
    void take(int microBatch, boolean isLast) {
        if (played && microBatch % ranks != ranks - 1) {
            return;
        }
        if (!played) {
            shareAmaxes();
        }
        update.run(Phase.UPDATE);
        if (!played && isLast) {
            shareWindows();
            shareRecorded();
        }
    }

    private void shareAmaxes() {
        if (histories.isEmpty()) {
            return;
        }
        List<float[]> all = floats(histories);
        float[] pending = new float[all.size()];
        for (int i = 0; i < pending.length; i++) {
            pending[i] = all.get(i)[0];
        }
        groups.stage().allReduce(pending, RankReduction.MAX);
        // those that stay, too: a GPU has the same work each time, which is a graph then
        for (int i = 0; i < pending.length; i++) {
            all.get(i)[0] = pending[i];
            write(histories.get(i), all.get(i));
        }
    }

    /** Windows as one process has them that casts one rank's tensors after another's. */
    private void shareWindows() {
        if (windows.isEmpty()) {
            return;
        }
        Collectives world = groups.data();
        List<Value> names = List.copyOf(windows.keySet());
        List<float[]> own = floats(names);
        List<float[]> scales =
                floats(windows.values().stream().map(Windowed::quantScale).toList());
        float[] largest = new float[names.size()];
        float[] smallest = new float[names.size()];
        for (int i = 0; i < names.size(); i++) {
            largest[i] = own.get(i)[0];
            smallest[i] = scales.get(i)[0];
        }
        // the ranks that have parts of a tensor: its amax, and the multiplier that belongs to it
        groups.tensor().allReduce(largest, RankReduction.MAX);
        groups.tensor().allReduce(smallest, RankReduction.MIN);
        float[] said = new float[2 * names.size()];
        for (int i = 0; i < names.size(); i++) {
            said[2 * i] = largest[i];
            said[2 * i + 1] = smallest[i];
        }
        float[] all = new float[said.length * world.size()];
        MemorySegment gathered = MemorySegment.ofArray(new byte[all.length * Float.BYTES]);
        world.allGather(bytes(said), gathered);
        MemorySegment.copy(gathered, Tensor.F32_LE, 0, all, 0, all.length);
        for (int i = 0; i < names.size(); i++) {
            Windowed windowed = Objects.requireNonNull(windows.get(names.get(i)));
            float[] window = own.get(i);
            float pending = all[2 * i];
            for (int r = 1; r < world.size(); r++) {
                pending = windowed.rule().pending(window, pending, all[r * said.length + 2 * i]);
            }
            window[0] = pending;
            write(names.get(i), window);
            write(windowed.quantScale(), all[(world.size() - 1) * said.length + 2 * i + 1]);
        }
    }

    private void shareRecorded() {
        if (recorded.isEmpty()) {
            return;
        }
        List<float[]> own = floats(recorded);
        float[] said = new float[own.size()];
        for (int i = 0; i < said.length; i++) {
            said[i] = own.get(i)[0];
        }
        MemorySegment last = bytes(said);
        groups.data().broadcast(last, groups.data().size() - 1);
        groups.tensor().allReduce(last, DType.F32, RankReduction.MAX);
        for (int i = 0; i < said.length; i++) {
            write(recorded.get(i), last.getAtIndex(Tensor.F32_LE, i));
        }
    }

    private List<float[]> floats(List<Value> values) {
        List<Fetched> fetched =
                values.stream().map(v -> memory.memory().fetch(v)).toList();
        return fetched.stream().map(f -> f.bytes().toArray(Tensor.F32_LE)).toList();
    }

    private void write(Value value, float... elements) {
        memory.memory().write(value, bytes(elements));
    }

    private static MemorySegment bytes(float[] elements) {
        MemorySegment bytes = MemorySegment.ofArray(new byte[elements.length * Float.BYTES]);
        MemorySegment.copy(elements, 0, bytes, Tensor.F32_LE, 0, elements.length);
        return bytes;
    }

    @Override
    public void close() {
        update.close();
    }
}
