package dev.octet.pipeline;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.hf.TransformerSizes;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.tensor.DType;
import dev.octet.pipeline.plan.Accelerator;
import dev.octet.pipeline.plan.Accelerator.ProductType;
import dev.octet.pipeline.plan.Choice;
import dev.octet.pipeline.plan.DecoderWorkload;
import dev.octet.pipeline.plan.Estimate;
import dev.octet.pipeline.plan.GraphWorkload;
import dev.octet.pipeline.plan.Hardware;
import dev.octet.pipeline.plan.MeshRules;
import dev.octet.pipeline.plan.MeshSearch;
import dev.octet.pipeline.plan.ParameterBytes;
import dev.octet.pipeline.plan.PipelineSchedule;
import dev.octet.pipeline.plan.PlannedStep;
import dev.octet.pipeline.plan.TransformerFlops;
import dev.octet.pipeline.plan.Workload;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.trainer.activation.Recompute;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.Mesh;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.device.DryDevice;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cpu.CpuRates;
import dev.octet.trainer.device.cpu.HostMemory;
import dev.octet.trainer.device.cpu.StepTrial;
import dev.octet.trainer.dialect.DialectFiles;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.StepWork;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/**
 * {@code octet plan}: what training a model takes, before anything is bought or computed: bytes, operations, time and cost on a number of accelerators, with the ways to
 * share the work ranked, or on this machine.
 *
 * <pre>{@code
 * TrainingPlan.Result plan = TrainingPlan.run(TrainingPlan.Request.of(Path.of("Llama-3.1-405B/config.json")).withHardware(Hardware.parse("2048xH100", "code")), Job.defaults());
 * }</pre>
 */
public final class TrainingPlan {
    /** Tokens of a step where nothing says how many. */
    private static final long TOKENS = 1L << 22;

    /** Longest sequence where nothing says how long; models may be made for more. */
    private static final int LENGTH = 8192;

    /** Micro-batches of a schedule that is drawn. */
    private static final int DRAWN = 64;

    /** Room for it: what a terminal of 80 columns leaves. */
    private static final int COLUMNS = 76;

    private static final int LINES = 9;

    /** The most accelerators that a way is looked for on. */
    private static final int MOST = 1 << 16;

    private static final double HOUR = 3600;

    /** Seconds between steps: samples are read, metrics written. Steps of tiny GPT-2 took 1.6 to 4.2 ms longer than their operators on two cores of a Zen 5. */
    private static final double BETWEEN = 0.0025;

    /** Bytes of a machine that does not say how much it has. */
    private static final long MEMORY = 1L << 32;

    private TrainingPlan() {}

    /**
     * What to plan.
     *
     * @param model a {@code config.json}, a checkpoint, or an ONNX file
     * @param config of a run, as YAML; empty for Adam in {@code precision}
     * @param settings keys of the configuration with other values
     * @param hardware empty for this machine
     * @param rules what of the mesh is given
     * @param length tokens of a sample; 0 for what the configuration says, or the model is made for
     * @param samples of a step on all devices together; 0 for what the configuration says, or about four million tokens
     * @param precision of Linears where there is no configuration
     * @param tokens of the whole training; 0 for the steps of the configuration
     * @param price of a device for an hour; 0 for none
     */
    public record Request(
            Path model,
            Optional<Path> config,
            List<String> settings,
            Optional<Hardware> hardware,
            MeshRules rules,
            int length,
            long samples,
            ProductType precision,
            double tokens,
            double price) {
        public Request {
            settings = List.copyOf(settings);
        }

        /** A model on this machine. */
        public static Request of(Path model) {
            return new Request(
                    model, Optional.empty(), List.of(), Optional.empty(), MeshRules.NONE, 0, 0, ProductType.BF16, 0, 0);
        }

        /** The same as a configuration has it, with other values for some of its keys. */
        public Request withConfig(Path yaml, List<String> assignments) {
            return new Request(
                    model, Optional.of(yaml), assignments, hardware, rules, length, samples, precision, tokens, price);
        }

        /** The same on accelerators. */
        public Request withHardware(Hardware accelerators) {
            return new Request(
                    model,
                    config,
                    settings,
                    Optional.of(accelerators),
                    rules,
                    length,
                    samples,
                    precision,
                    tokens,
                    price);
        }

        /** The same with a part of the mesh given. */
        public Request withRules(MeshRules given) {
            return new Request(model, config, settings, hardware, given, length, samples, precision, tokens, price);
        }

        /** The same with steps of so many samples of so many tokens; 0 for what {@link Request} says. */
        public Request withBatch(long newSamples, int newLength) {
            return new Request(
                    model, config, settings, hardware, rules, newLength, newSamples, precision, tokens, price);
        }

        /** The same with products of a type, where there is no configuration. */
        public Request withPrecision(ProductType type) {
            return new Request(model, config, settings, hardware, rules, length, samples, type, tokens, price);
        }

        /** The same for a training of so many tokens. */
        public Request withTokens(double all) {
            return new Request(model, config, settings, hardware, rules, length, samples, precision, all, price);
        }

        /** The same at a price of a device for an hour. */
        public Request withPrice(double hourly) {
            return new Request(model, config, settings, hardware, rules, length, samples, precision, tokens, hourly);
        }
    }

    /**
     * What training takes.
     *
     * @param model the path that was given
     * @param parameters of the model
     * @param activeParameters that compute for a token; fewer where there are experts
     * @param step what a step is
     * @param bytesEach bytes of each parameter from step to step
     * @param cluster on accelerators; null on this machine
     * @param machine on this machine; null on accelerators
     */
    public record Result(
            String model,
            long parameters,
            long activeParameters,
            Step step,
            ParameterBytes bytesEach,
            @Nullable Cluster cluster,
            @Nullable Machine machine) {}

    /**
     * A step.
     *
     * @param samples on all devices together
     * @param length tokens of a sample; 0 for a model of which only the graph is known
     * @param precision that Linears multiply in
     * @param flops operations of its products, nothing twice
     * @param sixNd {@code 6 N D}; 0 where tokens are not counted
     * @param attentionFlops those of {@code flops} that attention takes, which {@code 6 N D} leaves out
     */
    public record Step(long samples, int length, String precision, double flops, double sixNd, double attentionFlops) {
        /** Tokens. */
        public long tokens() {
            return samples * length;
        }
    }

    /**
     * The ways to share the work among accelerators.
     *
     * @param hardware as {@code 64xH100}
     * @param source where the numbers of the accelerator are from
     * @param memory bytes of one
     * @param usable bytes of one that a plan may use
     * @param best the fastest way; null where none fits
     * @param ways that fit, the fastest first
     * @param missing meshes that do not fit, those that miss least first
     * @param against why other meshes cannot be
     * @param asConfigured plain data parallelism as the configuration has it
     * @param change the smallest change of that which fits; empty when it fits itself, or nothing does
     * @param enough accelerators that some way fits on, where none fits on these; 0 where none was found
     * @param schedule of the best way; null without a pipeline
     */
    public record Cluster(
            String hardware,
            String source,
            long memory,
            long usable,
            @Nullable Way best,
            List<Way> ways,
            List<Way> missing,
            List<String> against,
            @Nullable Way asConfigured,
            String change,
            int enough,
            @Nullable Drawing schedule) {
        public Cluster {
            ways = List.copyOf(ways);
            missing = List.copyOf(missing);
            against = List.copyOf(against);
        }
    }

    /**
     * A pipeline's schedule as text.
     *
     * @param microBatches that are drawn, the first of a step
     * @param each forwards of a chunk of layers that a character stands for
     * @param lines one for each stage that is shown
     */
    public record Drawing(int microBatches, int each, List<String> lines) {
        public Drawing {
            lines = List.copyOf(lines);
        }
    }

    /**
     * One way.
     *
     * @param choice mesh, micro-batch, bytes, seconds, traffic
     * @param bytes of the fullest accelerator
     * @param seconds of a step
     * @param tokensPerSecond of all accelerators; samples where tokens are not counted
     * @param mfu model FLOPs utilisation, of the peak of BF16
     * @param bubble part of the time that stages wait for each other
     * @param days of the whole training; 0 where its length is not known
     * @param cost of the whole training, or of a step; 0 without a price
     */
    public record Way(
            Choice choice,
            long bytes,
            double seconds,
            double tokensPerSecond,
            double mfu,
            double bubble,
            double days,
            double cost) {}

    /**
     * A run of Octet on this machine.
     *
     * @param memory bytes of it; 0 where that is not known
     * @param limit what a run may take: memory, and what it is swapped out to
     * @param lasting bytes of weights, gradients, moments and casts
     * @param within bytes of a step besides
     * @param process bytes of what every process takes besides: the JVM, libraries
     * @param fits whether {@code octet train} would start it
     * @param fix the smallest change that fits; empty when it fits
     * @param productRate operations a second of a large product, measured
     * @param memoryRate bytes read and written a second, measured
     * @param castRate elements a second that become codes of FP8 or are made of them, measured
     * @param seconds of a step, the sum of what its steps take when they are tried
     * @param mfu part of the measured rate that a step's own operations are
     */
    public record Machine(
            long memory,
            long limit,
            long lasting,
            long within,
            long process,
            boolean fits,
            String fix,
            double productRate,
            double memoryRate,
            double castRate,
            double seconds,
            double mfu) {
        /** The most that the process will take. */
        public long peak() {
            return lasting + within + process;
        }
    }

    /** What a process takes besides what a run plans, on Linux: docs/memory.md says for what; measured by bench/run-plan. */
    static long processBytes(ProductType type) {
        return switch (type) {
            case FP32 -> 168_000_000L;
            case BF16 -> 178_000_000L;
            case FP8 -> 198_000_000L;
        };
    }

    /**
     * Plans.
     *
     * @throws OctetException when the model or its configuration cannot be used, or the mesh cannot be
     * @throws IOException when a file cannot be read
     */
    public static Result run(Request request, Job job) throws IOException {
        if (Files.notExists(request.model())) {
            throw new NoSuchFileException(request.model().toString());
        }
        Optional<TrainingConfig> config = Optional.empty();
        if (request.config().isPresent()) {
            config = Optional.of(read(request.config().get(), request.settings()));
        }
        Optional<TransformerSizes> sizes = sizes(request, job);
        if (request.hardware().isEmpty() && config.isPresent()) {
            return here(request, config.get(), sizes, job);
        }
        if (sizes.isPresent()) {
            return decoder(request, config, sizes.get(), job);
        }
        return graph(
                request,
                config.orElseThrow(() -> new InvalidOptionException(
                        "the sizes of this model follow from its graph alone, which takes samples to be planned",
                        request.model().toString(),
                        "add --config FILE, as octet train takes it; or give a config.json of "
                                + String.join(", ", TransformerSizes.modelTypes()))),
                job);
    }

    private static TrainingConfig read(Path yaml, List<String> settings) throws IOException {
        return TrainingConfig.of(
                RunFolder.merged(yaml, settings, OptionalInt.empty(), DialectFiles.NONE)
                        .section(),
                RunFolder.configFolder(yaml, yaml));
    }

    /** The sizes that {@code config.json} names; empty for other files, and for models that are known by their graph alone. */
    private static Optional<TransformerSizes> sizes(Request request, Job job) throws IOException {
        Path path = request.model();
        boolean folder = Files.isDirectory(path);
        Path name = path.getFileName();
        boolean json = !folder
                && name != null
                && name.toString().endsWith(".json")
                && !name.toString().endsWith(".index.json");
        Path parent = path.toAbsolutePath().getParent();
        Path where = folder || parent == null ? path : parent;
        String file = json ? String.valueOf(name) : ModelConfig.FILE_NAME;
        boolean onnx = !folder && name != null && name.toString().endsWith(".onnx");
        Optional<ObjectNode> config = onnx ? Optional.empty() : ModelConfig.read(where, file);
        if (config.isEmpty()) {
            if (folder && request.config().isEmpty()) {
                throw new InvalidOptionException(
                        "there is no " + ModelConfig.FILE_NAME + " in '" + path + "'",
                        job.name(),
                        "give the folder of a model, its config.json, or an .onnx file with --config");
            }
            return Optional.empty();
        }
        boolean known = TransformerSizes.modelTypes()
                .contains(config.get().path("model_type").asText(""));
        return known || json
                ? Optional.of(
                        TransformerSizes.of(config.get(), where.resolve(file).toString()))
                : Optional.empty();
    }

    private static Result decoder(Request request, Optional<TrainingConfig> config, TransformerSizes sizes, Job job)
            throws IOException {
        int length = length(request, config, sizes);
        ProductType type = config.map(ParameterBytes::productType).orElse(request.precision());
        ParameterBytes each = config.map(ParameterBytes::of).orElseGet(() -> ParameterBytes.adam(type));
        Hardware hardware =
                request.hardware().isPresent() ? request.hardware().get() : new Hardware(1, machine(job, type));
        long samples = samples(request, config, hardware.count(), length);
        PlannedStep work = new PlannedStep(samples, length, type, each);
        Workload model = new DecoderWorkload(sizes);
        double tokens = work.tokens();
        Step step = new Step(
                samples,
                length,
                type.text(),
                model.flops(work),
                TransformerFlops.sixN(sizes) * tokens,
                3 * TransformerFlops.attention(sizes, length) * tokens);
        return new Result(
                request.model().toString(),
                sizes.parameters(),
                sizes.activeParameters(),
                step,
                each,
                cluster(request, config, hardware, new Planning(model, work)),
                null);
    }

    /** This machine as an accelerator: its memory and what it is measured to do. */
    private static Accelerator machine(Job job, ProductType type) {
        HostMemory memory = HostMemory.find()
                .orElseThrow(() -> new InvalidOptionException(
                        "the memory of this machine is not known", job.name(), "name the hardware: --hardware 8xH100"));
        try (CpuDevice device = CpuDevice.of(job.threads())) {
            CpuRates rates = device.rates(type == ProductType.FP32 ? DType.F32 : DType.BF16);
            return new Accelerator(
                    "this machine",
                    memory.bytes(),
                    rates.products() / Estimate.PRODUCTS,
                    0,
                    rates.bytes() / Estimate.MEMORY,
                    rates.bytes(),
                    1,
                    rates.bytes(),
                    "measured now");
        }
    }

    private static int length(Request request, Optional<TrainingConfig> config, TransformerSizes sizes) {
        int context = sizes.embedding().context();
        int learned = sizes.embedding().positions();
        if (request.length() > 0) {
            if (learned > 0 && request.length() > learned) {
                throw new InvalidOptionException(
                        "the model has " + learned + " learned positions, and samples have " + request.length()
                                + " tokens",
                        "--sequence " + request.length(),
                        "give --sequence " + learned + ", or fewer");
            }
            return request.length();
        }
        return config.map(c ->
                        c.data().sequence() > 0 ? c.data().sequence() : c.data().maxLength())
                .orElse(Math.min(context, LENGTH));
    }

    private static long samples(Request request, Optional<TrainingConfig> config, int devices, int length) {
        if (request.samples() > 0) {
            return request.samples();
        }
        return config.map(c -> (long) c.batchSize() * c.gradientAccumulation())
                .orElseGet(() -> devices * Math.ceilDiv(TOKENS, (long) length * devices));
    }

    /** A model and a step. */
    private record Planning(Workload model, PlannedStep work) {}

    private static Cluster cluster(
            Request request, Optional<TrainingConfig> config, Hardware hardware, Planning planning) {
        Workload model = planning.model();
        PlannedStep work = planning.work();
        MeshSearch search = new MeshSearch(model, work, hardware, request.rules());
        MeshSearch.Found found = search.run();
        Estimate estimate = new Estimate(model, work, hardware);
        double steps = request.tokens() > 0
                ? request.tokens() / work.tokens()
                : config.map(c -> (double) c.steps()).orElse(0.0);
        Pricing pricing = new Pricing(estimate, work, hardware, steps, request.price());
        Optional<Choice> plain = plain(config, hardware, planning, estimate);
        long usable = Estimate.usable(hardware.accelerator());
        boolean plainFits = plain.filter(c -> c.bytes().total() <= usable).isPresent();
        Optional<Choice> nearest = plain.isEmpty() || plainFits ? Optional.empty() : search.nearest(plain.get());
        List<Way> ways = found.fitting().stream().map(pricing::of).toList();
        return new Cluster(
                hardware.text(),
                hardware.accelerator().source(),
                hardware.accelerator().memory(),
                usable,
                ways.isEmpty() ? null : ways.getFirst(),
                ways,
                found.missing().stream().map(pricing::of).toList(),
                found.against(),
                plain.map(pricing::of).orElse(null),
                nearest.map(n -> change(plain.orElseThrow(), n)).orElse(""),
                ways.isEmpty() && request.hardware().isPresent() ? search.least(MOST) : 0,
                ways.isEmpty() ? null : drawn(ways.getFirst().choice()));
    }

    /** Plain data parallelism as a configuration has it: whole copies of the model, its micro-batch; empty where it does not divide the samples. */
    private static Optional<Choice> plain(
            Optional<TrainingConfig> config, Hardware hardware, Planning planning, Estimate estimate) {
        long samples = planning.work().samples();
        if (samples % hardware.count() != 0) {
            return Optional.empty();
        }
        long each = samples / hardware.count();
        int batch = config.map(TrainingConfig::batchSize).orElse(1);
        int micro = each % batch == 0 ? batch : 1;
        boolean again = config.filter(c -> !(c.activations().recompute() instanceof Recompute.None))
                .isPresent();
        return Optional.of(estimate.of(new Mesh(hardware.count(), 1, 1, 1, 0), micro, again));
    }

    /** What one way has otherwise than another, in the words of {@code --mesh}. */
    private static String change(Choice from, Choice to) {
        List<String> words = new ArrayList<>();
        Mesh a = from.mesh();
        Mesh b = to.mesh();
        if (a.zero() != b.zero()) {
            words.add("zero=" + b.zero());
        }
        if (a.tensor() != b.tensor()) {
            words.add("tensor=" + b.tensor());
        }
        if (a.pipeline() != b.pipeline()) {
            words.add("pipeline=" + b.pipeline());
        }
        if (a.chunks() != b.chunks()) {
            words.add("chunks=" + b.chunks());
        }
        if (from.microBatch() != to.microBatch()) {
            words.add("micro_batch=" + to.microBatch());
        }
        if (from.recompute() != to.recompute()) {
            words.add("recompute=" + (to.recompute() ? "all" : "none"));
        }
        return String.join(",", words);
    }

    /** As many micro-batches as a line has room for, one character for each forward; or one for each stage, in fewer characters. */
    private static @Nullable Drawing drawn(Choice choice) {
        Mesh mesh = choice.mesh();
        if (mesh.pipeline() == 1) {
            return null;
        }
        int step = mesh.chunks() == 1 ? 1 : mesh.pipeline();
        int least = (int) Math.min(choice.microBatches(), mesh.pipeline());
        int micro = (int) Math.min(choice.microBatches(), DRAWN) / step * step;
        PipelineSchedule schedule = new PipelineSchedule(mesh.pipeline(), mesh.chunks(), Math.max(least, micro));
        for (; micro > least && schedule.each(COLUMNS) > 1; micro -= step) {
            schedule = new PipelineSchedule(mesh.pipeline(), mesh.chunks(), Math.max(least, micro - step));
        }
        return new Drawing(schedule.microBatches(), schedule.each(COLUMNS), schedule.text(COLUMNS, LINES));
    }

    /** Makes rows of choices. */
    private record Pricing(Estimate estimate, PlannedStep work, Hardware hardware, double steps, double price) {
        Way of(Choice choice) {
            double seconds = choice.time().total();
            double all = steps > 0 ? steps * seconds : seconds;
            return new Way(
                    choice,
                    choice.bytes().total(),
                    seconds,
                    work.tokens() / seconds,
                    estimate.utilisation(choice.time()),
                    choice.bubble(),
                    steps > 0 ? all / HOUR / 24 : 0,
                    all / HOUR * hardware.count() * price);
        }
    }

    /** A run with its graph, as the trainer plans it. */
    private record Dry(RunPlan plan, StepWork work, TrainingConfig config) {}

    private static Dry dry(Request request, TrainingConfig config, Job job) throws IOException {
        try (TrainingJob opened = TrainingJob.openOn(
                threads -> new DryDevice(CpuDevice.of(threads)), request.model(), config, job, Collectives.alone())) {
            RunPlan plan = opened.trainer().plan();
            return new Dry(plan, plan.work().orElseThrow(), opened.config());
        }
    }

    /** What the steps take here. */
    private static StepTrial trial(StepWork work, ProductType type, Job job) {
        long most = HostMemory.find().map(HostMemory::bytes).orElse(MEMORY) / 4;
        try (CpuDevice device = CpuDevice.of(job.threads())) {
            return device.trial(work.steps(), work.states(), type == ProductType.FP32 ? DType.F32 : DType.BF16, most);
        }
    }

    /** Any model on accelerators, by what its graph does for one micro-batch. */
    private static Result graph(Request request, TrainingConfig config, Job job) throws IOException {
        Dry dry = dry(request, config, job);
        Hardware hardware = request.hardware().orElseThrow();
        long samples =
                request.samples() > 0 ? request.samples() : (long) config.batchSize() * config.gradientAccumulation();
        ParameterBytes each = ParameterBytes.of(config);
        ProductType type = ParameterBytes.productType(config);
        PlannedStep work = new PlannedStep(samples, 1, type, each);
        long parameters = dry.plan().trainedElements() + dry.plan().frozenElements();
        double batch = config.batchSize();
        GraphWorkload model = new GraphWorkload(
                parameters,
                dry.work().forward() / batch,
                dry.work().bytes() / 3.0 / batch, // of forward and backward
                dry.plan().temporaryBytes() / batch);
        return new Result(
                request.model().toString(),
                parameters,
                parameters,
                new Step(samples, 0, type.text(), model.flops(work), 0, 0),
                each,
                cluster(request, Optional.of(config), hardware, new Planning(model, work)),
                null);
    }

    /** A run on this machine. */
    private static Result here(Request request, TrainingConfig config, Optional<TransformerSizes> sizes, Job job)
            throws IOException {
        Dry dry = dry(request, config, job);
        StepWork work = dry.work();
        int micro = config.gradientAccumulation();
        StepTrial trial = trial(work, ParameterBytes.productType(config), job);
        CpuRates rates = trial.rates();
        double seconds = micro * trial.seconds(work.microBatch()) + trial.seconds(work.once()) + BETWEEN;
        double flops = (double) micro * (work.products() - work.again());
        Train.Request train = Train.Request.of(request.model(), request.config().orElseThrow(), Path.of("run"))
                .withSettings(request.settings());
        Optional<Train.Shortage> shortage = SmallerRun.shortage(train, dry.plan(), job);
        Optional<HostMemory> host = HostMemory.find();
        int length = sizes.isPresent() ? length(request, Optional.of(config), sizes.get()) : 0;
        long samples = (long) config.batchSize() * micro;
        long parameters = dry.plan().trainedElements() + dry.plan().frozenElements();
        Machine machine = new Machine(
                host.map(HostMemory::bytes).orElse(0L),
                host.map(HostMemory::limitBytes).orElse(0L),
                dry.plan().lastingBytes(),
                dry.plan().temporaryBytes() + work.decodedBytes(),
                processBytes(ParameterBytes.productType(config)),
                shortage.isEmpty(),
                shortage.map(Train.Shortage::fix).orElse(""),
                rates.products(),
                rates.bytes(),
                rates.casts(),
                seconds,
                flops / seconds / rates.products());
        Step step = new Step(
                samples,
                length,
                config.precision().mode().toLowerCase(Locale.ROOT),
                flops,
                sizes.map(s -> TransformerFlops.sixN(s) * samples * length).orElse(0.0),
                sizes.map(s -> 3 * TransformerFlops.attention(s, length) * samples * length)
                        .orElse(0.0));
        return new Result(
                request.model().toString(),
                parameters,
                sizes.map(TransformerSizes::activeParameters).orElse(parameters),
                step,
                ParameterBytes.of(config),
                null,
                machine);
    }
}
