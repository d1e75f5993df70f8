package dev.octet.trainer.precision;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** A model of one Linear, y = x·wᵀ + b, running on a device under a policy. */
final class OneLinear implements AutoCloseable {
    private static final Arena ARENA = Arena.ofAuto();

    private final Program program;
    private final Memory memory;
    private final Executable running;
    private final Map<String, byte[]> seen = new HashMap<>();

    OneLinear(Device device, PrecisionPolicy policy, int rows, int in, int out, boolean transB, boolean trains) {
        this(device, Autodiff.program(model(rows, in, out, transB), options(policy, trains)));
    }

    private OneLinear(Device device, Program program) {
        this.program = program;
        this.memory = device.allocate(program.lasting());
        this.running = device.load(program, memory);
    }

    static GraphModel model(int rows, int in, int out, boolean transB) {
        Node linear = Node.of(
                "layer",
                "Linear",
                Node.OCTET_DOMAIN,
                List.of("x", "w", "b"),
                List.of("y"),
                Attribute.of("transB", transB ? 1L : 0L));
        Shape w = transB ? Shape.of(out, in) : Shape.of(in, out);
        return GraphModel.of(
                Graph.of(
                        "g",
                        List.of(linear),
                        List.of(
                                Initializer.of(Tensor.ofFloats(ARENA, "w", w, new float[in * out])),
                                Initializer.of(Tensor.ofFloats(ARENA, "b", Shape.of(out), new float[out]))),
                        List.of(f32("x", rows, in)),
                        List.of(f32("y", rows, out))),
                10,
                21);
    }

    static ValueInfo f32(String name, long... dims) {
        return new ValueInfo(
                name,
                new TensorType(DType.F32, Arrays.stream(dims).mapToObj(Dim::of).toList()));
    }

    private static ProgramOptions options(PrecisionPolicy policy, boolean trains) {
        Set<String> parameters = Set.of("w", "b");
        return trains
                ? new ProgramOptions(List.of("y"), null, Set.of("y"), Set.of("x", "w", "b"), parameters, policy)
                : ProgramOptions.forward(List.of("y"), parameters, policy);
    }

    Program program() {
        return program;
    }

    /** Remembers what each step writes of the values whose name begins so. */
    void watch(String prefix) {
        running.observe((step, nanos, executable) -> {
            for (Value v : step.results()) {
                if (v != null && v.name().startsWith(prefix)) {
                    byte[] bytes = new byte[(int) v.type().byteSize()];
                    MemorySegment to = ARENA.allocate(bytes.length);
                    executable.read(v, to);
                    MemorySegment.copy(to, 0, MemorySegment.ofArray(bytes), 0, bytes.length);
                    seen.put(v.name(), bytes);
                }
            }
        });
    }

    byte[] seen(String name) {
        return requireNonNull(seen.get(name), () -> name + " is not among " + seen.keySet());
    }

    void prepare(float[] w, float[] b) {
        write("w", w);
        write("b", b);
        running.run(Phase.PREPARE);
    }

    float[] forward(float[] x) {
        feed(requireNonNull(program.inputs().get("x")), x);
        running.run(Phase.FORWARD);
        return read(requireNonNull(program.outputs().get("y")), running::read);
    }

    /** Gradients of x, w and b. */
    Map<String, float[]> backward(float[] dy) {
        program.gradients().values().forEach(memory::zero);
        feed(requireNonNull(program.inputs().get(Program.UPSTREAM + "y")), dy);
        running.run(Phase.BACKWARD);
        Map<String, float[]> all = new HashMap<>();
        program.gradients().forEach((name, v) -> all.put(name, read(v, memory::read)));
        return all;
    }

    /** Elements of a lasting value. */
    float[] lasting(String name) {
        Value v = program.lasting().stream()
                .filter(l -> l.name().equals(name))
                .findFirst()
                .orElseThrow(() -> new AssertionError(name + " is not among " + program.lasting()));
        return read(v, memory::read);
    }

    /** Names of all states. */
    List<String> states() {
        return program.lasting().stream()
                .filter(v -> v.role() == ValueRole.STATE)
                .map(Value::name)
                .toList();
    }

    private void write(String name, float[] elements) {
        Value v = program.lasting().stream()
                .filter(l -> l.name().equals(name))
                .findFirst()
                .orElseThrow();
        memory.write(v, bytes(v, elements));
    }

    private void feed(Value v, float[] elements) {
        running.feed(v, bytes(v, elements));
    }

    static MemorySegment bytes(Value v, float[] elements) {
        CpuTensor t = new CpuTensor(v.type(), ARENA.allocate(v.type().byteSize(), 64));
        if (v.type().dtype().isFloat()) {
            t.write(0, elements, 0, elements.length);
        } else {
            for (int i = 0; i < elements.length; i++) {
                t.writeLong(i, (long) elements[i]);
            }
        }
        return t.bytes();
    }

    interface Reader {
        void read(Value v, MemorySegment to);
    }

    static float[] read(Value v, Reader reader) {
        CpuTensor t = new CpuTensor(v.type(), ARENA.allocate(v.type().byteSize(), 64));
        reader.read(v, t.bytes());
        float[] all = new float[(int) t.count()];
        t.read(0, all, 0, all.length);
        return all;
    }

    @Override
    public void close() {
        running.close();
        memory.close();
    }
}
