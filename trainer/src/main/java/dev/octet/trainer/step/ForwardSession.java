package dev.octet.trainer.step;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.autodiff.StoredWeights;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * Runs only the forward pass of a model, with the weights, state and precision of a checkpoint: its outputs are those of the model right
 * after training. Changes no state. Not thread-safe.
 */
public final class ForwardSession implements AutoCloseable {
    private final GraphSource source;
    private final List<String> outputs;
    private final Set<String> parameters;
    private final Set<String> stored;
    private final PrecisionPolicy policy;
    private final PersistentBuffers memory;
    private final RecentPrograms<Map<String, Shape>, Executable> programs = new RecentPrograms<>(Executable::close);

    /**
     * Loads weights and state onto the device.
     *
     * @param outputs graph outputs to compute
     * @param weights F32 masters, by name
     * @param state of the FP8 recipes, by name
     */
    public ForwardSession(
            GraphSource source,
            List<String> outputs,
            PrecisionPolicy policy,
            Map<String, Tensor> weights,
            Map<String, Tensor> state,
            Device device) {
        this(source, outputs, policy, weights, Set.of(), state, device);
    }

    /**
     * The same with constants that stay in the bytes they are stored in.
     *
     * @param stored their names; see {@link StoredWeights}
     */
    public ForwardSession(
            GraphSource source,
            List<String> outputs,
            PrecisionPolicy policy,
            Map<String, Tensor> weights,
            Set<String> stored,
            Map<String, Tensor> state,
            Device device) {
        this.source = source;
        this.outputs = List.copyOf(outputs);
        this.parameters = Set.copyOf(weights.keySet());
        this.policy = policy;
        this.stored = Set.copyOf(stored);
        this.memory = new PersistentBuffers(device);
        try {
            memory.restore(weights);
            memory.restore(state);
        } catch (RuntimeException e) {
            memory.close();
            throw e;
        }
    }

    /**
     * Computes the outputs.
     *
     * @param inputs tensors to feed, by name
     * @param arena owns the outputs
     * @return F32 tensors, by name; outputs of integer types are left out
     * @throws InvalidDataException when an input is missing or has the wrong shape
     */
    public Map<String, Tensor> outputs(Map<String, Tensor> inputs, Arena arena) {
        Map<String, Shape> shapes = new TreeMap<>();
        inputs.forEach((name, t) -> shapes.put(name, t.shape()));
        Executable executable = programs.get(
                shapes,
                s -> memory.load(Autodiff.program(
                        source.at(s),
                        ProgramOptions.forward(outputs, parameters, policy).withStored(stored))));
        Program program = executable.program();
        for (Map.Entry<String, Value> e : program.inputs().entrySet()) {
            Tensor input = inputs.get(e.getKey());
            if (input == null) {
                throw new InvalidDataException(
                        "input '" + e.getKey() + "' is missing",
                        "data with " + inputs.keySet(),
                        "add an array of this name to the data");
            }
            executable.feed(e.getValue(), input.bytes());
        }
        executable.run(Phase.PREPARE);
        executable.run(Phase.FORWARD);
        Map<String, Tensor> results = new LinkedHashMap<>();
        for (String output : outputs) {
            Value value = program.outputs().get(output);
            if (value != null && value.type().dtype().isFloat()) {
                results.put(output, read(executable, value, output, arena));
            }
        }
        return results;
    }

    private static Tensor read(Executable executable, Value value, String name, Arena arena) {
        Tensor result = Tensor.allocate(
                arena, new TensorSpec(name, DType.F32, value.type().shape()));
        try (Arena scratch = Arena.ofConfined()) {
            CpuTensor narrow = new CpuTensor(
                    value.type(), scratch.allocate(Math.max(1, value.type().byteSize()), 64));
            executable.read(value, narrow.bytes());
            float[] elements = new float[Math.toIntExact(narrow.count())];
            narrow.read(0, elements, 0, elements.length);
            for (int i = 0; i < elements.length; i++) {
                result.bytes().set(Tensor.F32_LE, i * 4L, elements[i]);
            }
        }
        return result;
    }

    @Override
    public void close() {
        programs.close();
        memory.close();
    }
}
