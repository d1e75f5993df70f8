package dev.octet.trainer;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Fetched;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.binary.BinaryFunction;
import dev.octet.trainer.op.binary.Pair;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.fp8.QuantizeFp8Delayed;
import dev.octet.trainer.op.transpose.Transpose;
import dev.octet.trainer.op.view.View;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/** A device with a fault in its machinery: it runs other programs than it was given, or other scales. */
public final class PlantedDevice implements Device {
    private final Device device;
    private final UnaryOperator<Program> change;

    /** A state, and what is written over it before the forward half of the second micro-batch of a step. */
    private final @Nullable String stale;

    private final float staleScale;

    private PlantedDevice(Device device, UnaryOperator<Program> change, @Nullable String stale, float staleScale) {
        this.device = device;
        this.change = change;
        this.stale = stale;
        this.staleScale = staleScale;
    }

    /** A device whose programs are changed. */
    public static PlantedDevice of(Device device, UnaryOperator<Program> change) {
        return new PlantedDevice(device, change, null, 0);
    }

    /** A device that takes an old scale for a tensor in the second micro-batch of each step. */
    static PlantedDevice withStaleScale(Device device, String state, float scale) {
        return new PlantedDevice(device, p -> p, state, scale);
    }

    @Override
    public String name() {
        return device.name();
    }

    @Override
    public String products() {
        return device.products();
    }

    @Override
    public Memory allocate(Collection<Value> lasting) {
        return device.allocate(lasting);
    }

    @Override
    public Executable load(Program program, Memory memory) {
        Executable loaded = device.load(change.apply(program), memory);
        return stale == null ? loaded : new StaleScale(loaded, memory, stale, staleScale);
    }

    @Override
    public void close() {
        device.close();
    }

    /** Adds steps to a program. */
    static final class Edit {
        private final Program program;
        private final List<Value> values;
        private final List<Step> steps;
        private final Map<Value, Tensor> constants;

        Edit(Program program) {
            this.program = program;
            this.values = new ArrayList<>(program.values());
            this.steps = new ArrayList<>(program.steps());
            this.constants = new LinkedHashMap<>(program.constants());
        }

        private Value value(String name, OperandType type, ValueRole role) {
            Value v = new Value(values.size(), "planted:" + values.size() + ":" + name, type, role);
            values.add(v);
            return v;
        }

        Value constant(float x) {
            OperandType one = new OperandType(DType.F32, Shape.of(1));
            Value v = value("constant", one, ValueRole.CONSTANT);
            constants.put(v, Tensor.ofFloats(Arena.ofAuto(), v.name(), Shape.of(1), x));
            return v;
        }

        /** Inserts an operator before the step that reads its result, and gives the result. */
        Value insert(int before, Op op, Value... inputs) {
            Value result = value(op.type(), op.outputs().getFirst(), ValueRole.TEMPORARY);
            Step reader = steps.get(before);
            List<@Nullable Value> operands = new ArrayList<>(List.of(inputs));
            steps.add(
                    before,
                    new Step(
                            reader.phase(),
                            reader.node(),
                            op,
                            false,
                            operands,
                            List.of(result),
                            List.of(),
                            List.of(),
                            Set.of()));
            return result;
        }

        /** Gives a step another operand. */
        void replaceInput(int step, int input, Value by) {
            Step s = steps.get(step);
            List<@Nullable Value> inputs = new ArrayList<>(s.inputs());
            inputs.set(input, by);
            steps.set(
                    step,
                    new Step(
                            s.phase(),
                            s.node(),
                            s.op(),
                            s.backward(),
                            inputs,
                            s.outputs(),
                            s.upstream(),
                            s.gradients(),
                            s.accumulated()));
        }

        List<Step> steps() {
            return steps;
        }

        Program done() {
            return new Program(
                    values,
                    steps,
                    program.inputs(),
                    program.outputs(),
                    program.gradients(),
                    constants,
                    program.stored(),
                    program.initialStates());
        }
    }

    private static boolean isLinear(Step s, String node, boolean backward) {
        return s.op() instanceof Fp8Linear && s.node().equals(node) && s.backward() == backward;
    }

    /** dgrad of codes of one layer is too large by a factor. */
    static UnaryOperator<Program> wrongDgrad(String node, float factor) {
        return program -> {
            Edit edit = new Edit(program);
            for (int i = 0; i < edit.steps().size(); i++) {
                Step s = edit.steps().get(i);
                if (isLinear(s, node, true)
                        && s.op() instanceof Fp8Linear op
                        && op.dgrad().onCodes()) {
                    int input = op.dgradHasOwnWeight() ? Fp8Linear.W_SCALE_DGRAD : Fp8Linear.W_SCALE;
                    Value scale = requireNonNull(s.inputs().get(input));
                    Value constant = edit.constant(factor);
                    Pair pair = new Pair(scale.type(), constant.type(), scale.type());
                    Value wrong = edit.insert(i, BinaryFunction.Mul.of(pair), scale, constant);
                    edit.replaceInput(i + 1, input, wrong);
                    i++;
                }
            }
            return edit.done();
        };
    }

    /** fprop of codes of one layer reads the grid of the weight's scales column by column. */
    static UnaryOperator<Program> transposedGrid(String node, int rows, int cols) {
        return program -> {
            Edit edit = new Edit(program);
            for (int i = 0; i < edit.steps().size(); i++) {
                Step s = edit.steps().get(i);
                if (isLinear(s, node, false)
                        && s.op() instanceof Fp8Linear op
                        && op.fprop().onCodes()) {
                    Value scale = requireNonNull(s.inputs().get(Fp8Linear.W_SCALE));
                    OperandType grid = new OperandType(scale.type().dtype(), Shape.of(rows, cols));
                    Value matrix = edit.insert(i, new View("Reshape", scale.type(), grid.shape()), scale);
                    Value transposed = edit.insert(i + 1, new Transpose(grid, List.of(1, 0)), matrix);
                    Value flat = edit.insert(
                            i + 2,
                            new View("Reshape", transposed.type(), scale.type().shape()),
                            transposed);
                    edit.replaceInput(i + 3, Fp8Linear.W_SCALE, flat);
                    i += 3;
                }
            }
            return edit.done();
        };
    }

    /** Scales of rows of zeros are NaN where a layer's input has a scale for each row, as without a guard against 0 / 0. */
    static UnaryOperator<Program> noGuardForZeroRows(String node, int rows) {
        return program -> {
            Edit edit = new Edit(program);
            for (int i = 0; i < edit.steps().size(); i++) {
                Step s = edit.steps().get(i);
                Value scale = isLinear(s, node, false) ? s.inputs().get(Fp8Linear.X_SCALE) : null;
                if (scale != null && scale.type().count() == rows) {
                    // a row of zeros has the scale of the smallest amax, which this rounds to zero
                    Value small = edit.constant(0x1p-110f);
                    Pair by = new Pair(scale.type(), small.type(), scale.type());
                    Pair both = new Pair(scale.type(), scale.type(), scale.type());
                    Value product = edit.insert(i, BinaryFunction.Mul.of(by), scale, small);
                    Value one = edit.insert(i + 1, BinaryFunction.Div.of(both), product, product);
                    Value wrong = edit.insert(i + 2, BinaryFunction.Mul.of(both), scale, one);
                    edit.replaceInput(i + 3, Fp8Linear.X_SCALE, wrong);
                    i += 3;
                }
            }
            return edit.done();
        };
    }

    /** A quantiser that reads F32, as behind a fused normalisation, reads it too large by a factor. */
    static UnaryOperator<Program> wrongFusedNorm(String node, float factor) {
        return program -> {
            Edit edit = new Edit(program);
            for (int i = 0; i < edit.steps().size(); i++) {
                Step s = edit.steps().get(i);
                Value x = s.inputs().isEmpty() ? null : s.inputs().getFirst();
                if (s.op() instanceof QuantizeFp8Delayed
                        && s.phase() == Phase.FORWARD
                        && s.node().equals(node)
                        && x != null
                        && x.type().dtype() == DType.F32) {
                    Value constant = edit.constant(factor);
                    Pair pair = new Pair(x.type(), constant.type(), x.type());
                    Value wrong = edit.insert(i, BinaryFunction.Mul.of(pair), x, constant);
                    edit.replaceInput(i + 1, 0, wrong);
                    i++;
                }
            }
            return edit.done();
        };
    }

    /** Writes over a state before the second FORWARD after each PREPARE. */
    private static final class StaleScale implements Executable {
        private final Executable loaded;
        private final Memory memory;
        private final @Nullable Value state;
        private final float scale;
        private int forwards;

        StaleScale(Executable loaded, Memory memory, String name, float scale) {
            this.loaded = loaded;
            this.memory = memory;
            this.scale = scale;
            this.state = loaded.program().values().stream()
                    .filter(v -> v.name().equals(name))
                    .findFirst()
                    .orElse(null);
        }

        @Override
        public Program program() {
            return loaded.program();
        }

        @Override
        public long bytes() {
            return loaded.bytes();
        }

        @Override
        public void feed(Value input, MemorySegment bytes) {
            loaded.feed(input, bytes);
        }

        @Override
        public void run(Phase phase) {
            if (phase == Phase.PREPARE) {
                forwards = 0;
            }
            if (phase == Phase.FORWARD && ++forwards == 2 && state != null) {
                memory.write(
                        state,
                        Tensor.ofFloats(Arena.ofAuto(), "s", Shape.of(1), scale).bytes());
            }
            loaded.run(phase);
        }

        @Override
        public void read(Value value, MemorySegment bytes) {
            loaded.read(value, bytes);
        }

        @Override
        public Fetched fetch(Value value) {
            return loaded.fetch(value);
        }

        @Override
        public void observe(@Nullable StepObserver observer) {
            loaded.observe(observer);
        }

        @Override
        public void close() {
            loaded.close();
        }
    }
}
