package dev.octet.trainer.check;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/** Runs a graph with concrete shapes forward and backward once, in F32, and compares outputs and gradients with expected ones. */
public final class GradientCheck {
    /**
     * A gradient this small relative to the largest one is rounding noise: the bias of attention keys has a gradient of exactly zero in
     * theory.
     */
    private static final double NOISE = 1e-3;

    private final GraphModel model;
    private final @Nullable String loss;
    private final Golden golden;
    /** Graph values by the file's name of the gradient. */
    private final Map<String, GoldenName> names = new LinkedHashMap<>();

    private final Program program;

    /**
     * Checks that the graph and the expectations fit, and builds the program.
     *
     * @param model canonical, with concrete shapes, and with a loss if {@code loss} is given
     * @param loss the graph value to differentiate; null when the file has gradients of outputs
     * @param renamed parameter names of the file that the graph spells differently, with the graph's name; each needs a gradient in the
     *     file
     * @throws InvalidDataException when tensors are missing, unknown, or of the wrong shape or type; the message lists all
     */
    public GradientCheck(GraphModel model, @Nullable String loss, Golden golden, Map<String, String> renamed) {
        this(model, loss, golden, renamed, PrecisionPolicy.FP32);
    }

    /** Checks in mixed precision. */
    GradientCheck(
            GraphModel model,
            @Nullable String loss,
            Golden golden,
            Map<String, String> renamed,
            PrecisionPolicy policy) {
        this.model = model;
        this.loss = loss;
        this.golden = golden;
        Set<String> named = new TreeSet<>(golden.gradients().keySet());
        // an adapter's parameters have names that say what they are; their uses may not
        named.removeIf(n ->
                !n.startsWith(PeftKeys.PREFIX) || !model.graph().initializers().containsKey(n));
        Parameters parameters = Parameters.of(model.graph()).with(model.graph(), named);
        List<String> problems = new ArrayList<>(inputProblems());
        problems.addAll(outputProblems());
        renamed.keySet().stream()
                .filter(n -> !golden.gradients().containsKey(n))
                .forEach(n -> problems.add("'" + n + "' is renamed, but the file has no 'grad." + n + "'"));
        golden.gradients().forEach((name, t) -> {
            try {
                names.put(name, GoldenName.find(model.graph(), parameters, name, renamed.getOrDefault(name, name), t));
            } catch (InvalidDataException e) {
                problems.add(e.what());
            }
        });
        if (!problems.isEmpty()) {
            throw new InvalidDataException(
                    String.join("; ", problems),
                    "graph '" + model.graph().name() + "'",
                    "use the graph's names of inputs, outputs and parameters, or map names with --rename"
                            + "; `octet inspect --parameters` lists them");
        }
        Set<String> trained = new TreeSet<>();
        names.values().forEach(n -> trained.add(n.value()));
        List<String> outputs = golden.outputs().keySet().stream()
                .filter(o -> loss == null || !o.equals(Program.LOSS))
                .toList();
        program = Autodiff.program(
                model,
                new ProgramOptions(outputs, loss, golden.upstream().keySet(), trained, parameters.names(), policy));
    }

    /** The program that {@link #run} executes. */
    public Program program() {
        return program;
    }

    private List<String> inputProblems() {
        List<String> problems = new ArrayList<>();
        Set<String> known = new HashSet<>();
        for (ValueInfo v : model.graph().requiredInputs()) {
            known.add(v.name());
            if (!golden.inputs().containsKey(v.name())) {
                problems.add("in." + v.name() + " is missing");
            }
        }
        golden.inputs().keySet().stream()
                .filter(n -> !known.contains(n))
                .forEach(n -> problems.add("in." + n + " is not an input of the graph; its inputs are "
                        + new TreeSet<>(known) + (n.equals("labels") ? " (labels need a loss: choose one)" : "")));
        return problems;
    }

    private List<String> outputProblems() {
        List<String> problems = new ArrayList<>();
        Set<String> defined = model.graph().definitions();
        for (String name : golden.outputs().keySet()) {
            if (name.equals(Program.LOSS) && loss == null && !defined.contains(name)) {
                problems.add("out.loss is given, but the check has no loss");
            } else if (!name.equals(Program.LOSS) && !defined.contains(name)) {
                problems.add("out." + name + " is not a value of the graph");
            }
        }
        golden.upstream().keySet().stream()
                .filter(n -> !defined.contains(n))
                .forEach(n -> problems.add("upstream." + n + " is not a value of the graph"));
        if (!golden.gradients().isEmpty() && golden.upstream().isEmpty() && loss == null) {
            problems.add("gradients are expected, but there is neither an upstream.OUTPUT nor a loss");
        }
        return problems;
    }

    /** Runs the program on {@code device}. Returns one difference for each expected tensor, outputs first. */
    public List<GoldenDifference> run(Device device) {
        try (Arena arena = Arena.ofConfined();
                Memory memory = device.allocate(program.lasting());
                Executable running = device.load(program, memory)) {
            writeParameters(memory, arena);
            program.gradients().values().forEach(memory::zero);
            running.run(Phase.PREPARE);
            program.inputs().forEach((name, v) -> feed(running, name, v));
            running.run(Phase.FORWARD);
            running.run(Phase.BACKWARD);
            List<GoldenDifference> differences = new ArrayList<>();
            golden.outputs().forEach((name, expected) -> {
                Value v = requireNonNull(program.outputs().get(name), name);
                requireSameShape("out." + name, v.type().shape(), expected.shape());
                double[] computed = doubles(v, t -> running.read(v, t.bytes()), arena);
                differences.add(GoldenDifference.of("out." + name, computed, doubles(expected), 0));
            });
            differences.addAll(gradientDifferences(memory, arena));
            return differences;
        }
    }

    private List<GoldenDifference> gradientDifferences(Memory memory, Arena arena) {
        Map<String, double[]> expected = new HashMap<>();
        golden.gradients().forEach((name, t) -> expected.put(name, doubles(t)));
        double least = NOISE
                * expected.values().stream()
                        .mapToDouble(GoldenDifference::largest)
                        .max()
                        .orElse(0);
        List<GoldenDifference> differences = new ArrayList<>();
        names.forEach((name, place) -> {
            Value gradient = program.gradients().get(place.value());
            double[] wanted = requireNonNull(expected.get(name));
            // values that the loss does not depend on have a gradient of zero
            double[] computed = gradient == null
                    ? new double[wanted.length]
                    : place.asExpected(doubles(gradient, t -> memory.read(gradient, t.bytes()), arena));
            differences.add(GoldenDifference.of("grad." + name, computed, wanted, least));
        });
        return differences;
    }

    private void writeParameters(Memory memory, Arena arena) {
        Graph graph = model.graph();
        for (Value v : program.values()) {
            if (v.role() == ValueRole.PARAMETER) {
                Initializer c = requireNonNull(graph.initializers().get(v.name()));
                Parameter p = new Parameter(v.name(), c.tensor().orElseThrow(), Parameter.Use.WEIGHT);
                memory.write(v, Parameters.master(p, arena).bytes());
            }
        }
    }

    private void feed(Executable running, String name, Value v) {
        boolean up = name.startsWith(Program.UPSTREAM);
        String own = up ? name.substring(Program.UPSTREAM.length()) : name;
        Tensor t = requireNonNull((up ? golden.upstream() : golden.inputs()).get(own), name);
        String called = (up ? "" : "in.") + name;
        requireSameShape(called, v.type().shape(), t.shape());
        if (t.dtype() != v.type().dtype()) {
            throw new InvalidDataException(
                    called + " is " + t.dtype() + ", but the graph takes " + v.type(),
                    "tensor '" + called + "'",
                    "store it as " + v.type().dtype());
        }
        running.feed(v, t.bytes());
    }

    /** Requires equal shapes; scalars may be stored with one axis. */
    private static void requireSameShape(String name, Shape graph, Shape file) {
        if (!graph.equals(file) && (graph.elementCount() != 1 || file.elementCount() != 1)) {
            throw new InvalidDataException(
                    name + " is " + file + ", but in the graph it is " + graph,
                    "tensor '" + name + "'",
                    "compute the expectations at the same sizes");
        }
    }

    private interface Read {
        void into(Tensor t);
    }

    private static double[] doubles(Value v, Read read, Arena arena) {
        Tensor t = Tensor.allocate(
                arena, new TensorSpec(v.name(), v.type().dtype(), v.type().shape()));
        read.into(t);
        return doubles(t);
    }

    private static double[] doubles(Tensor t) {
        double[] all = new double[Math.toIntExact(t.shape().elementCount())];
        if (t.dtype() == DType.F64) {
            for (int i = 0; i < all.length; i++) {
                all[i] = t.bytes().get(Tensor.F64_LE, i * 8L);
            }
            return all;
        }
        CpuTensor elements = new CpuTensor(new OperandType(t.dtype(), t.shape()), t.bytes());
        float[] one = new float[1];
        for (int i = 0; i < all.length; i++) {
            elements.read(i, one, 0, 1);
            all[i] = one[0];
        }
        return all;
    }
}
