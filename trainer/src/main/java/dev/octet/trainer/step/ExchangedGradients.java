package dev.octet.trainer.step;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.collective.CodeSum;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankGroups;
import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.RankSums;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.op.shard.SharedTensor;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.reduction.AutoScale;
import dev.octet.trainer.reduction.GradientReduction;
import dev.octet.trainer.reduction.RankGradient;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.reduction.ReductionReport;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Gradients of ranks of which this process plays one: the others average theirs with it. Many tensors travel in one message, those that backward computes first in the
 * first.
 */
final class ExchangedGradients implements RankGradients {
    /** A message of so many bytes takes as long as its bytes do. */
    private static final long ALONE_BYTES = 1 << 20;

    private final RankSettings settings;
    private final RankPrograms programs;
    private final PersistentBuffers memory;
    /** The ranks that compute other samples. */
    private final Collectives world;

    private final RankGroups groups;
    private final Map<String, SharedTensor> shared;
    private final long bucketBytes;
    private final Executable collect;
    private final Executable average;
    /** Parameters averaged in F32 and in codes, last ones first. */
    private final List<String> plain;

    private final List<String> coded;
    /** From device to device; null where gradients pass through the host. */
    private final @Nullable RankSums sums;

    /** Gradients that travel together, side by side. */
    private MemorySegment bucket = MemorySegment.NULL;

    /** Exchanges while backward computes; null where they wait for it. */
    private final @Nullable ExecutorService thread;

    /** What backward has begun; null without. */
    private @Nullable OverlappedExchange begun;

    /**
     * Exchanges of one rank. Where nothing else is exchanged during backward, gradients are.
     *
     * @param shared parameters of which ranks have parts: scales of codes are those of the whole gradients
     * @param bucketBytes of gradients in F32, or of codes, that travel together
     */
    ExchangedGradients(
            RankSettings settings,
            RankPrograms programs,
            PersistentBuffers memory,
            RankGroups groups,
            Map<String, SharedTensor> shared,
            long bucketBytes) {
        this.settings = settings;
        this.programs = programs;
        this.memory = memory;
        this.world = groups.data();
        this.groups = groups;
        this.shared = Map.copyOf(shared);
        this.bucketBytes = bucketBytes;
        collect = memory.load(programs.collect().getFirst());
        average = memory.load(programs.average());
        coded = new ArrayList<>(programs.coded().keySet()).reversed();
        plain = new ArrayList<>(programs.parameters()).reversed();
        plain.removeAll(coded);
        sums = settings.reduction() == GradientReduction.NCCL ? memory.memory().sums(world) : null;
        boolean overlaps = world.size() == groups.world().size();
        thread = overlaps && coded.isEmpty() && sums == null
                ? Executors.newSingleThreadExecutor(
                        Thread.ofPlatform().daemon().name("octet-exchange").factory())
                : null;
    }

    @Override
    public @Nullable StepObserver during(Program training) {
        if (thread == null || !lieInHost()) {
            return null;
        }
        begun = new OverlappedExchange(
                training, buckets(plain, Float.BYTES), names -> average(names, memory::gradient), thread);
        return begun.observer();
    }

    /** Whether another thread can read gradients while the device computes others. */
    private boolean lieInHost() {
        return plain.stream()
                .map(memory::gradient)
                .allMatch(g -> g.type().dtype() == DType.F32
                        && memory.memory().hostBytes(g).isPresent());
    }

    @Override
    public void await() {
        if (begun != null) {
            begun.await();
        }
    }

    @Override
    public void take(int microBatch, boolean isLast) {
        if (begun != null) {
            begun = null; // averaged already
            return;
        }
        if (microBatch == 0 && isLast && coded.isEmpty() && sums == null && lieInFloats()) {
            averageFloats(memory::gradient); // the only one: its gradients are the sum of this rank
            return;
        }
        collect.run(Phase.UPDATE);
        programs.parameters().forEach(memory::zeroGradient);
        if (isLast) {
            average();
        } else {
            between();
        }
    }

    private void between() {
        if (settings.reduction() == GradientReduction.DDP) {
            average();
            for (String name : programs.parameters()) {
                memory.writeGradient(RankPrograms.ofRank(name, 0), memory.readGradient(name, 1));
                memory.zeroGradient(name);
            }
            return;
        }
        float[] largest = new float[coded.size()];
        for (int i = 0; i < largest.length; i++) {
            largest[i] = RankGradient.amax(own(coded.get(i)));
        }
        groups.tensor().allReduce(largest, RankReduction.MAX);
        if (!settings.reduction().sharesScales()) {
            world.allReduce(largest, RankReduction.MAX);
        }
        for (int i = 0; i < largest.length; i++) {
            float[] gradient = own(coded.get(i));
            RankGradient.round(settings.rule(), gradient, largest[i]);
            memory.writeGradient(RankPrograms.ofRank(coded.get(i), 0), gradient);
        }
    }

    private void average() {
        averageFloats(programs::own);
        averageCodes();
    }

    private float[] own(String parameter) {
        return memory.readGradient(RankPrograms.ofRank(parameter, 0), 1);
    }

    private boolean lieInFloats() {
        return plain.stream().allMatch(n -> memory.gradient(n).type().dtype() == DType.F32);
    }

    /**
     * Averages in F32 what is not averaged in codes.
     *
     * @param own the sum of this rank, F32, of a parameter
     */
    private void averageFloats(Function<String, Value> own) {
        if (sums != null) {
            sums.average(plain.stream().map(own).toList());
            average.run(Phase.UPDATE);
            return;
        }
        buckets(plain, Float.BYTES).forEach(names -> average(names, own));
    }

    /** Averages the parameters of a bucket. */
    private void average(List<String> names, Function<String, Value> own) {
        Optional<MemorySegment> there =
                names.size() == 1 ? memory.memory().hostBytes(own.apply(names.getFirst())) : Optional.empty();
        MemorySegment all = there.orElseGet(() -> gathered(names, own));
        world.allReduce(all, DType.F32, RankReduction.AVERAGE);
        long at = 0;
        for (String name : names) {
            long bytes = own.apply(name).type().byteSize();
            keep(name, own.apply(name), all.asSlice(at, bytes), there.isPresent());
            at += bytes;
        }
    }

    private MemorySegment gathered(List<String> names, Function<String, Value> own) {
        long bytes =
                names.stream().mapToLong(n -> own.apply(n).type().byteSize()).sum();
        if (bucket.byteSize() < bytes) {
            bucket = Arena.ofAuto().allocate(bytes, 64);
        }
        long at = 0;
        for (String name : names) {
            Value value = own.apply(name);
            memory.memory().read(value, bucket.asSlice(at, value.type().byteSize()));
            at += value.type().byteSize();
        }
        return bucket.asSlice(0, bytes);
    }

    /** Puts an average where the gradient is. */
    private void keep(String name, Value own, MemorySegment average, boolean liesThere) {
        Value gradient = memory.gradient(name);
        if (gradient.type().dtype() != DType.F32) {
            memory.writeGradient(name, average.toArray(Tensor.F32_LE));
        } else if (!liesThere || !gradient.name().equals(own.name())) {
            memory.memory().write(gradient, average);
        }
    }

    private void averageCodes() {
        if (coded.isEmpty()) {
            return;
        }
        List<RankGradient> ranks = new ArrayList<>();
        float[] said = new float[coded.size()];
        float[] largest = new float[coded.size()];
        for (int i = 0; i < said.length; i++) {
            largest[i] = RankGradient.amax(own(coded.get(i)));
        }
        // of whole gradients, where ranks have parts of them
        groups.tensor().allReduce(largest, RankReduction.MAX);
        for (int i = 0; i < said.length; i++) {
            RankPrograms.Coded kept = kept(coded.get(i));
            RankGradient rank = new RankGradient(settings.rule(), (float) memory.readNumber(kept.scale()), (float)
                    memory.readNumber(kept.preScale()));
            said[i] = rank.announce(largest[i]);
            ranks.add(rank);
        }
        world.allReduce(said, RankGradient.agreement(settings.rule()));
        if (settings.automatic().isPresent()) {
            world.allReduce(largest, RankReduction.MAX);
        }
        for (int i = 0; i < said.length; i++) {
            ranks.get(i).agree(said[i]);
        }
        double[] saturated = new double[coded.size()];
        int first = 0;
        for (List<String> names : buckets(coded, Byte.BYTES)) {
            sum(names, ranks.subList(first, first + names.size()), saturated, first);
            first += names.size();
        }
        prescale(saturated, largest);
    }

    /** Keeps the next step's pre-scales, which follow from the codes of whole gradients. */
    private void prescale(double[] own, float[] largest) {
        double[] saturated = shared.isEmpty() ? own : groups.tensor().sums(own);
        for (int i = 0; i < own.length; i++) {
            String name = coded.get(i);
            RankPrograms.Coded kept = kept(name);
            SharedTensor whole = shared.get(name);
            long codes = (long) (whole == null ? own[i] : saturated[i]);
            long elements = whole == null ? kept.elements() : whole.whole().elementCount();
            float preScale = (float) memory.readNumber(kept.preScale());
            Optional<AutoScale> automatic = settings.automatic();
            if (automatic.isPresent()) {
                preScale = automatic.get().next(preScale, codes, elements, largest[i]);
            }
            write(kept.preScale(), preScale);
            write(kept.saturated(), (float) codes);
        }
    }

    private void sum(List<String> names, List<RankGradient> ranks, double[] saturated, int first) {
        List<byte[]> all = new ArrayList<>();
        int bytes = 0;
        for (int i = 0; i < names.size(); i++) {
            float[] gradient = own(names.get(i));
            byte[] codes = new byte[gradient.length];
            ranks.get(i).encode(gradient, gradient.length, codes);
            all.add(codes);
            bytes += codes.length;
        }
        byte[] bucket = new byte[bytes];
        int at = 0;
        for (byte[] codes : all) {
            System.arraycopy(codes, 0, bucket, at, codes.length);
            at += codes.length;
        }
        world.allReduce(MemorySegment.ofArray(bucket), DType.F8_E4M3FN, RankGradient.CODES);
        at = 0;
        for (int i = 0; i < names.size(); i++) {
            byte[] codes = all.get(i);
            System.arraycopy(bucket, at, codes, 0, codes.length);
            at += codes.length;
            keep(names.get(i), codes, ranks.get(i));
            saturated[first + i] = CodeSum.saturated(codes, codes.length);
        }
    }

    /** Puts an average where the gradient was, and keeps what the next step begins with. */
    private void keep(String name, byte[] sum, RankGradient rank) {
        float multiplier = rank.multiplier();
        float[] average = new float[sum.length];
        for (int i = 0; i < sum.length; i++) {
            average[i] = Float8Format.E4M3FN.decode(sum[i] & 0xFF) * multiplier;
        }
        memory.writeGradient(name, average);
        write(kept(name).scale(), rank.kept());
    }

    private RankPrograms.Coded kept(String name) {
        Map<String, RankPrograms.Coded> all = programs.coded();
        RankPrograms.Coded kept = all.get(name);
        if (kept == null) {
            throw new IllegalArgumentException("'" + name + "' is averaged in F32");
        }
        return kept;
    }

    private void write(Value scalar, float x) {
        try (Arena arena = Arena.ofConfined()) {
            memory.memory()
                    .write(
                            scalar,
                            Tensor.ofFloats(arena, scalar.name(), scalar.type().shape(), x)
                                    .bytes());
        }
    }

    /** Parameters whose gradients travel together: as many as fit, at least one. What is large enough to travel alone is not copied for it. */
    private List<List<String>> buckets(List<String> names, int width) {
        List<List<String>> all = new ArrayList<>();
        long bytes = 0;
        for (String name : names) {
            long own = programs.own(name).type().count() * width;
            if (all.isEmpty() || bytes + own > bucketBytes || own >= ALONE_BYTES) {
                all.add(new ArrayList<>());
                bytes = 0;
            }
            all.getLast().add(name);
            bytes = own >= ALONE_BYTES ? bucketBytes : bytes + own;
        }
        return all;
    }

    @Override
    public Optional<ReductionReport> report() {
        Map<String, Long> elements = new HashMap<>();
        shared.forEach((name, whole) -> elements.put(name, whole.whole().elementCount()));
        Optional<ReductionReport> own = programs.report(memory, elements);
        return settings.reduction().isCoded() ? RankReports.reduction(groups.pipeline(), own) : own;
    }

    @Override
    public void close() {
        if (sums != null) {
            sums.close();
        }
        if (thread != null) {
            thread.shutdownNow();
        }
        collect.close();
        average.close();
    }
}
