package dev.octet.trainer.step;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/** A model that is not trained, in F32: its output for a micro-batch becomes the labels. */
public final class Teacher implements AutoCloseable {
    private final GraphSource source;
    private final String output;
    private final LastingMemory memory;
    private final Map<Map<String, Shape>, Executable> programs = new HashMap<>();

    /** @param output of the model that a student's output is to match */
    public Teacher(GraphSource source, String output, Device device) {
        this.source = source;
        this.output = output;
        this.memory = new LastingMemory(device);
    }

    /** The micro-batch with labels. */
    public MicroBatch label(MicroBatch batch, String labels, Arena arena) {
        Executable executable = programs.computeIfAbsent(batch.shapes(), s -> memory.load(program(s)));
        executable
                .program()
                .inputs()
                .forEach((name, value) -> executable.feed(
                        value,
                        Objects.requireNonNull(batch.tensors().get(name), name).bytes()));
        executable.run(Phase.PREPARE);
        executable.run(Phase.FORWARD);
        Value made = Objects.requireNonNull(executable.program().outputs().get(output));
        Tensor tensor = Tensor.allocate(
                arena, new TensorSpec(labels, made.type().dtype(), made.type().shape()));
        executable.read(made, tensor.bytes());
        Map<String, Tensor> tensors = new LinkedHashMap<>(batch.tensors());
        tensors.put(labels, tensor);
        return new MicroBatch(batch.number(), batch.rows(), tensors);
    }

    private Program program(Map<String, Shape> shapes) {
        return Autodiff.program(
                source.at(shapes), ProgramOptions.forward(List.of(output), Set.of(), PrecisionPolicy.FP32));
    }

    @Override
    public void close() {
        programs.values().forEach(Executable::close);
        memory.close();
    }
}
