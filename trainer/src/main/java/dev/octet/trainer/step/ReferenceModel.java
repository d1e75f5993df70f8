package dev.octet.trainer.step;

import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/**
 * The reference of {@code dpo}: the model as it was before training, without an adapter. The log-probabilities of a pair are computed when it
 * first comes up, by itself, so that they do not depend on the pairs beside it, and are kept.
 */
public final class ReferenceModel implements AutoCloseable {
    private final GraphSource source;
    private final LossConfig loss;
    private final PrecisionPolicy policy;
    private final Parameters parameters;
    private final PersistentBuffers memory;
    private final IdentityHashMap<Samples, Map<Long, float[]>> known = new IdentityHashMap<>();
    private final RecentPrograms<Map<String, Shape>, Executable> programs = new RecentPrograms<>(Executable::close);

    /**
     * @param source the model without an adapter
     * @param policy without state: not that of FP8
     */
    public ReferenceModel(GraphSource source, LossConfig loss, PrecisionPolicy policy, Device device) {
        this.source = source;
        this.loss = loss;
        this.policy = policy;
        this.parameters = Parameters.of(source.graph().graph());
        this.memory = new PersistentBuffers(device);
        memory.offer(parameters.all().stream()
                .filter(p -> p.tensor().dtype() != DType.F32)
                .toList());
    }

    /**
     * The micro-batch with the reference's log-probabilities added, as {@link LossGraph#REFERENCE}: of the preferred answers, then of the refused.
     *
     * @param samples which it is drawn from
     * @throws IOException when the data can no longer be read
     */
    public MicroBatch answer(MicroBatch batch, Samples samples, Arena arena) throws IOException {
        Map<Long, float[]> own = known.computeIfAbsent(samples, _ -> new HashMap<>());
        int pairs = batch.size();
        Tensor tensor = Tensor.allocate(arena, new TensorSpec(LossGraph.REFERENCE, DType.F32, Shape.of(2L * pairs)));
        for (int i = 0; i < pairs; i++) {
            long row = batch.rows().get(i);
            float[] both = own.get(row);
            if (both == null) {
                both = compute(row, samples);
                own.put(row, both);
            }
            tensor.bytes().setAtIndex(Tensor.F32_LE, i, both[0]);
            tensor.bytes().setAtIndex(Tensor.F32_LE, (long) pairs + i, both[1]);
        }
        Map<String, Tensor> tensors = new LinkedHashMap<>(batch.tensors());
        tensors.put(LossGraph.REFERENCE, tensor);
        return new MicroBatch(batch.number(), batch.rows(), tensors);
    }

    private float[] compute(long row, Samples samples) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            Map<String, Tensor> fed = samples.gather(new long[] {row}, arena);
            Map<String, Shape> shapes = new TreeMap<>();
            fed.forEach((name, t) -> shapes.put(name, t.shape()));
            Executable executable = programs.get(shapes, s -> memory.load(program(s, fed)));
            executable
                    .program()
                    .inputs()
                    .forEach((name, value) -> executable.feed(
                            value, Objects.requireNonNull(fed.get(name), name).bytes()));
            executable.run(Phase.PREPARE);
            executable.run(Phase.FORWARD);
            Value made = executable.program().outputs().values().iterator().next();
            Tensor read = Tensor.allocate(
                    arena,
                    new TensorSpec(
                            "log-probabilities",
                            made.type().dtype(),
                            made.type().shape()));
            executable.read(made, read.bytes());
            return read.toFloats();
        }
    }

    private Program program(Map<String, Shape> shapes, Map<String, Tensor> fed) {
        Map<String, OperandType> data = new TreeMap<>();
        fed.forEach((name, t) -> data.put(name, new OperandType(t.dtype(), t.shape())));
        GraphModel graph = LossGraph.logProbabilities(source.at(shapes), loss, data);
        String output = graph.graph().outputs().getLast().name();
        return Autodiff.program(graph, ProgramOptions.forward(List.of(output), parameters.names(), policy));
    }

    /** Bytes of its weights, of those that programs so far use. */
    public long lastingBytes() {
        return memory.bytes();
    }

    /** Bytes of inputs, constants and temporaries of its programs so far. */
    public long temporaryBytes() {
        return programs.all().stream().mapToLong(Executable::bytes).sum();
    }

    @Override
    public void close() {
        programs.close();
        memory.close();
    }
}
