package dev.octet.pipeline.plan;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.collective.Mesh;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;

/** All ways to train a model on some hardware, those that fit ranked by the time of a step. */
public final class MeshSearch {
    private static final int MOST_CHUNKS = 8;
    private static final int MOST_STAGES = 64;
    private static final int LARGEST_MICRO_BATCH = 1024;
    private static final String WHERE = "the mesh";

    private final Workload model;
    private final PlannedStep work;
    private final Hardware hardware;
    private final MeshRules rules;

    /**
     * A search.
     *
     * @param rules what is given of the mesh
     */
    public MeshSearch(Workload model, PlannedStep work, Hardware hardware, MeshRules rules) {
        this.model = model;
        this.work = work;
        this.hardware = hardware;
        this.rules = rules;
    }

    /**
     * What a search found.
     *
     * @param fitting the fastest way of each mesh that fits, by the time of a step
     * @param missing the way of each mesh that does not fit which needs least, by what it needs
     * @param against why meshes cannot be, by reason
     */
    public record Found(List<Choice> fitting, List<Choice> missing, List<String> against) {
        public Found {
            fitting = List.copyOf(fitting);
            missing = List.copyOf(missing);
            against = List.copyOf(against);
        }
    }

    /** Meshes of the same parts are one row, whatever the size of a micro-batch, chunks and recomputation. */
    private record Row(int data, int tensor, int pipeline, int zero) {}

    /**
     * Tries everything.
     *
     * @throws InvalidOptionException when nothing is left to try
     */
    public Found run() {
        requireDivisible();
        Estimate estimate = new Estimate(model, work, hardware);
        long usable = Estimate.usable(hardware.accelerator());
        Map<Row, Choice> fastest = new LinkedHashMap<>();
        Map<Row, Choice> least = new LinkedHashMap<>();
        Set<String> against = new LinkedHashSet<>();
        for (Mesh mesh : meshes()) {
            Optional<String> reason = model.against(mesh).or(() -> undivided(mesh));
            if (reason.isPresent()) {
                if (mesh.chunks() == 1 || rules.numbers().containsKey("chunks")) {
                    against.add(reason.get());
                }
                continue;
            }
            Row row = new Row(mesh.data(), mesh.tensor(), mesh.pipeline(), mesh.zero());
            for (int microBatch : microBatches(mesh)) {
                for (boolean again : new boolean[] {false, true}) {
                    if (!rules.allowsRecompute(again)) {
                        continue;
                    }
                    Choice choice = estimate.of(mesh, microBatch, again);
                    if (choice.bytes().total() <= usable) {
                        fastest.merge(
                                row,
                                choice,
                                (a, b) -> b.time().total() < a.time().total() ? b : a);
                    } else {
                        least.merge(
                                row,
                                choice,
                                (a, b) -> b.bytes().total() < a.bytes().total() ? b : a);
                    }
                }
            }
        }
        least.keySet().removeAll(fastest.keySet());
        if (fastest.isEmpty() && least.isEmpty()) {
            throw new InvalidOptionException(
                    against.isEmpty()
                            ? "no mesh of " + hardware.text() + " is left to try"
                            : String.join("; ", against.stream().limit(3).toList()),
                    WHERE,
                    "leave some of it out, or give another number of devices");
        }
        return new Found(
                fastest.values().stream()
                        .sorted(Comparator.comparingDouble(
                                        (Choice c) -> c.time().total())
                                .thenComparingInt(c -> c.mesh().pipeline())
                                .thenComparingInt(c -> c.mesh().tensor())
                                .thenComparingInt(c -> c.mesh().zero()))
                        .toList(),
                least.values().stream()
                        .sorted(Comparator.comparingLong((Choice c) -> c.bytes().total()))
                        .toList(),
                List.copyOf(against));
    }

    /** What is given of a mesh must divide the accelerators. */
    private void requireDivisible() {
        long given = 1;
        List<String> words = new ArrayList<>();
        for (String key : List.of("data", "tensor", "pipeline")) {
            Integer number = rules.numbers().get(key);
            if (number != null) {
                given *= number;
                words.add(key + " " + number);
            }
        }
        if (hardware.count() % given != 0 || (words.size() == 3 && given != hardware.count())) {
            throw new InvalidOptionException(
                    hardware.text() + " cannot be dealt out by " + String.join(" x ", words),
                    WHERE,
                    "give numbers whose product divides " + hardware.count());
        }
    }

    /** The samples of a step must be shared out evenly; an interleaved schedule takes micro-batches by as many as there are stages. */
    private Optional<String> undivided(Mesh mesh) {
        if (work.samples() % mesh.data() != 0) {
            return Optional.of(work.samples() + " samples are not divisible by data " + mesh.data());
        }
        return Optional.empty();
    }

    private List<Integer> microBatches(Mesh mesh) {
        long each = work.samples() / mesh.data();
        return IntStream.iterate(1, b -> b <= Math.min(each, LARGEST_MICRO_BATCH), b -> b + 1)
                .filter(b ->
                        each % b == 0 && (Integer.bitCount(b) == 1 || b == each || !rules.allows("micro_batch", 1)))
                .filter(b -> rules.allows("micro_batch", b))
                .filter(b -> mesh.chunks() == 1 || each / b % mesh.pipeline() == 0)
                .boxed()
                .toList();
    }

    private List<Mesh> meshes() {
        List<Mesh> all = new ArrayList<>();
        int n = hardware.count();
        for (int tensor : divisors(n)) {
            boolean given = rules.numbers().containsKey("tensor");
            if (!rules.allows("tensor", tensor)
                    || (!given && tensor > hardware.accelerator().node())) {
                continue;
            }
            for (int pipeline : divisors(n / tensor)) {
                int data = n / tensor / pipeline;
                boolean deep = !rules.numbers().containsKey("pipeline") && pipeline > MOST_STAGES;
                if (deep || !rules.allows("pipeline", pipeline) || !rules.allows("data", data)) {
                    continue;
                }
                for (int chunks = 1; chunks <= (pipeline == 1 ? 1 : MOST_CHUNKS); chunks++) {
                    for (int zero = 0; zero <= (data == 1 ? 0 : 3); zero++) {
                        boolean alone = data == 1; // nothing is dealt out, whatever the stage
                        if (rules.allows("chunks", chunks) && (alone || rules.allows("zero", zero))) {
                            all.add(new Mesh(data, tensor, pipeline, chunks, zero));
                        }
                    }
                }
            }
        }
        return all;
    }

    private static List<Integer> divisors(int n) {
        return IntStream.rangeClosed(1, n).filter(d -> n % d == 0).boxed().toList();
    }

    /**
     * The way that fits and changes least of another: as few settings as possible, then the fastest.
     *
     * @param start what does not fit
     */
    public Optional<Choice> nearest(Choice start) {
        Estimate estimate = new Estimate(model, work, hardware);
        long usable = Estimate.usable(hardware.accelerator());
        Choice best = null;
        for (Mesh mesh : meshes()) {
            if (model.against(mesh).or(() -> undivided(mesh)).isPresent()) {
                continue;
            }
            for (int microBatch : microBatches(mesh)) {
                for (boolean again : new boolean[] {false, true}) {
                    if (rules.allowsRecompute(again)) {
                        Choice choice = estimate.of(mesh, microBatch, again);
                        if (choice.bytes().total() <= usable && (best == null || isNearer(choice, best, start))) {
                            best = choice;
                        }
                    }
                }
            }
        }
        return Optional.ofNullable(best);
    }

    private static boolean isNearer(Choice a, Choice b, Choice start) {
        int changes = Integer.compare(changes(a, start), changes(b, start));
        return changes < 0 || (changes == 0 && a.time().total() < b.time().total());
    }

    /** How many settings differ; the number of data-parallel groups follows from the others. */
    static int changes(Choice a, Choice b) {
        Mesh m = a.mesh();
        Mesh n = b.mesh();
        int count = 0;
        count += a.microBatch() == b.microBatch() ? 0 : 1;
        count += a.recompute() == b.recompute() ? 0 : 1;
        count += m.zero() == n.zero() ? 0 : 1;
        count += m.tensor() == n.tensor() ? 0 : 1;
        count += m.pipeline() == n.pipeline() ? 0 : 1;
        count += m.chunks() == n.chunks() ? 0 : 1;
        return count;
    }

    /** The least number of accelerators, doubled from what there is, that some way fits on; 0 where none up to {@code most} does. */
    public int least(int most) {
        for (int n = Math.multiplyExact(2, hardware.count()); n <= most; n *= 2) {
            MeshSearch more = new MeshSearch(model, work, hardware.times(n), MeshRules.NONE);
            if (work.samples() % n == 0 || n > work.samples()) {
                try {
                    if (!more.run().fitting().isEmpty()) {
                        return n;
                    }
                } catch (InvalidOptionException e) {
                    return 0;
                }
            }
        }
        return 0;
    }
}
