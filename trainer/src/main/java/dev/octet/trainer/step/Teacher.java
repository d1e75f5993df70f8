package dev.octet.trainer.step;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;

/** The teacher of a distillation: a frozen model in F32 whose output for a micro-batch the student learns to match. */
public final class Teacher implements AutoCloseable {
    private static final String WHERE = "loss: {distillation: {teacher: ...}}";

    private final GraphSource source;
    private final String output;
    private final PersistentBuffers memory;

    /** Weights that are stored in a narrower type than the F32 a teacher computes in. */
    private final Set<String> widened;

    private final RecentPrograms<Map<String, Shape>, Executable> programs = new RecentPrograms<>(Executable::close);

    private Teacher(GraphSource source, String output, Device device) {
        this.source = source;
        this.output = output;
        this.memory = new PersistentBuffers(device);
        List<Parameter> narrow = Parameters.of(source.graph().graph()).all().stream()
                .filter(p -> p.tensor().dtype() != DType.F32)
                .toList();
        this.widened = narrow.stream().map(Parameter::name).collect(Collectors.toUnmodifiableSet());
        memory.offer(narrow);
    }

    /**
     * A teacher for a student. Its output is the one with the student's output name, or its only one.
     *
     * @param output the student's output that is to match the teacher's
     * @throws UnsupportedModelException when it has an input that the student lacks, or no matching output
     */
    public static Teacher of(GraphSource source, GraphSource student, String output, Device device) {
        List<String> fed = names(student.graph().graph().requiredInputs());
        List<String> more = new ArrayList<>(names(source.graph().graph().requiredInputs()));
        more.removeAll(fed);
        if (!more.isEmpty()) {
            throw new UnsupportedModelException(
                    "the teacher needs inputs " + more + ", which the trained model does not have: it has " + fed,
                    WHERE,
                    "use a teacher with the same inputs as the trained model");
        }
        List<String> outputs = names(source.graph().graph().outputs());
        if (!outputs.contains(output) && outputs.size() != 1) {
            throw new UnsupportedModelException(
                    "the teacher has outputs " + outputs + " but not '" + output + "', from which the loss is computed",
                    WHERE,
                    "give the teacher's output the same name, or give the teacher a single output");
        }
        return new Teacher(source, outputs.contains(output) ? output : outputs.getFirst(), device);
    }

    private static List<String> names(List<ValueInfo> values) {
        return values.stream().map(ValueInfo::name).toList();
    }

    /** The micro-batch with the teacher's output added, as {@link LossGraph#TEACHER}. */
    public MicroBatch answer(MicroBatch batch, Arena arena) {
        Executable executable = programs.get(batch.shapes(), s -> memory.load(program(s)));
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
                arena,
                new TensorSpec(
                        LossGraph.TEACHER, made.type().dtype(), made.type().shape()));
        executable.read(made, tensor.bytes());
        Map<String, Tensor> tensors = new LinkedHashMap<>(batch.tensors());
        tensors.put(LossGraph.TEACHER, tensor);
        return new MicroBatch(batch.number(), batch.rows(), tensors);
    }

    private Program program(Map<String, Shape> shapes) {
        return Autodiff.program(
                source.at(shapes), ProgramOptions.forward(List.of(output), widened, PrecisionPolicy.FP32));
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
