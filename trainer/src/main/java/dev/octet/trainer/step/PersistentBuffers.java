package dev.octet.trainer.step;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.MemoryLimitException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.cut.Part;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Fetched;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.Offload;
import dev.octet.trainer.device.Offload.Place;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.op.dropout.Dropout;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForms;
import dev.octet.trainer.state.StateTensors;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;

/**
 * Device memory that outlives a step, by name, for checkpoints. Programs are built when their shapes first occur; checkpoint values that no
 * program uses yet are kept here until one does.
 */
final class PersistentBuffers implements AutoCloseable {
    private static final long GIGA = 1_000_000_000L;

    private final Device device;
    private final Memory memory;
    private final Map<String, Value> values = new TreeMap<>();
    private final Map<String, Tensor> waiting = new TreeMap<>();
    /** Parameters of the model, until a program uses them. */
    private final Map<String, Parameter> offered = new TreeMap<>();

    /** What this rank has of those that are offered whole. */
    private final Map<String, Part> cut = new HashMap<>();

    private final Set<String> parameters = new HashSet<>();
    private final StateForms states;
    private final Offload offload;

    /** With all parameters in F32. */
    PersistentBuffers(Device device) {
        this(device, StateForms.F32, Offload.NONE);
    }

    /**
     * @param states how parameters are kept
     * @param offload what lies off the device between its uses
     */
    PersistentBuffers(Device device, StateForms states, Offload offload) {
        this.device = device;
        this.states = states;
        this.offload = offload;
        this.memory = device.allocate(List.of(), offload);
    }

    /** Loads a program; its states start with their initial elements, or with those of the checkpoint. */
    Executable load(Program program) {
        Executable executable = device.load(program, memory);
        for (Value v : program.lasting()) {
            if (values.putIfAbsent(v.name(), v) == null && memory.keeps()) {
                Tensor saved = waiting.remove(v.name());
                Parameter fresh = offered.remove(v.name());
                if (saved != null && v.role() == ValueRole.PARAMETER && saved.dtype() == DType.F32) {
                    begin(v, saved, program);
                } else if (saved != null) {
                    write(v, saved);
                } else if (fresh != null) {
                    begin(v, fresh, program);
                }
            }
        }
        return executable;
    }

    /**
     * Refuses programs that are about to be loaded when the device cannot have what they need at the same time, before any of it is taken. Weights in the bytes of their file
     * do not count: the system lets their pages go.
     *
     * @throws MemoryLimitException with what they need
     */
    void requireRoom(List<Program> next) {
        if (device.limitBytes() == Long.MAX_VALUE) {
            return;
        }
        long lasting = bytes(v -> v.role() != ValueRole.STORED) - memory.offloadedBytes();
        Set<String> admitted = new HashSet<>(values.keySet());
        for (Program p : next) {
            Set<Value> away = offload.valuesAt(Place.DISK, p);
            for (Value v : p.lasting()) {
                boolean counts = admitted.add(v.name()) && v.role() != ValueRole.STORED && !away.contains(v);
                lasting += counts ? v.type().byteSize() : 0;
            }
        }
        // planning what shares memory takes long: not where all side by side has room
        long apart = next.stream().mapToLong(PersistentBuffers::allOfMicroBatch).sum();
        if (lasting + apart <= device.limitBytes()) {
            return;
        }
        long within =
                next.stream().mapToLong(p -> MemoryPlan.of(p).arenaBytes()).sum();
        if (lasting + within > device.limitBytes()) {
            throw new MemoryLimitException(
                    "the run needs " + size(lasting + within) + " of memory at least, and there are "
                            + size(device.limitBytes()),
                    lasting + within,
                    device.limitBytes(),
                    "device " + device.name() + ": " + size(lasting) + " of weights, gradients and moments, "
                            + size(within) + " within a step",
                    "make the micro-batch smaller, or have gradient_checkpointing compute activations again");
        }
    }

    private static String size(long bytes) {
        return bytes < GIGA
                ? String.format(Locale.ROOT, "%.1f MB", bytes / 1e6)
                : String.format(Locale.ROOT, "%.1f GB", bytes / 1e9);
    }

    private static long allOfMicroBatch(Program program) {
        return program.values().stream()
                .filter(v -> v.role().isInArena())
                .mapToLong(MemoryPlan::bytes)
                .sum();
    }

    /** Replaces the gradient of a parameter, rounded to the type that it is kept in. */
    void writeGradient(String parameter, float[] elements) {
        Value v = gradient(parameter);
        try (Arena arena = Arena.ofConfined()) {
            CpuTensor t =
                    new CpuTensor(v.type(), arena.allocate(Math.max(1, v.type().byteSize()), 64));
            t.write(0, elements, 0, elements.length);
            memory.write(v, t.bytes().asSlice(0, v.type().byteSize()));
        }
    }

    /** The gradient sum of a parameter. */
    Value gradient(String parameter) {
        Value v = values.get("d:" + parameter);
        if (v == null) {
            throw new IllegalArgumentException("'" + parameter + "' has no gradient");
        }
        return v;
    }

    /** Zeroes the gradient sum of a parameter. */
    void zeroGradient(String parameter) {
        Value v = values.get("d:" + parameter);
        if (v != null && v.role() == ValueRole.GRADIENT) {
            memory.zero(v);
        }
    }

    /** Writes the parts that stand for a parameter of the model, and lets go of its pages where it lies in a mapped file. */
    private void begin(Value parameter, Parameter fresh, Program program) {
        try (Arena arena = Arena.ofConfined()) {
            Part part = cut.get(parameter.name());
            Tensor master = Parameters.master(fresh, arena);
            if (part == null) {
                begin(parameter, master, program);
            } else {
                StateForm form = states.parameter(parameter.name(), part.shape());
                StateTensors.encode(form, master, arena).forEach((name, codes) -> {
                    boolean isCut = codes.shape().equals(part.whole());
                    write(lasting(program, name), isCut ? part.of(codes, arena) : codes);
                });
            }
        }
        if (fresh.tensor().bytes().isMapped()) {
            fresh.tensor().bytes().unload();
        }
    }

    /** Writes the parts that stand for a parameter. */
    private void begin(Value parameter, Tensor master, Program program) {
        StateForm form = states.parameter(parameter.name(), parameter.type().shape());
        if (form.isF32()) {
            write(parameter, master);
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            StateTensors.encode(form, master, arena).forEach((name, part) -> write(lasting(program, name), part));
        }
    }

    private static Value lasting(Program program, String name) {
        return program.lasting().stream()
                .filter(v -> v.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    /** What parameters begin with unless a checkpoint has them, in whatever type the model stores them; read one by one as programs need them. */
    void offer(Collection<Parameter> initial) {
        for (Parameter p : initial) {
            offered.put(p.name(), p);
            parameters.add(p.name());
        }
    }

    /**
     * The same of a rank that has parts of parameters. Codes whose scale is that of the whole tensor are cut when they are made.
     *
     * @param initial whole
     * @param parts what the rank has of those that are cut
     */
    void offer(Collection<Parameter> initial, Map<String, Part> parts) {
        List<Parameter> own = new ArrayList<>();
        for (Parameter p : initial) {
            Part part = parts.get(p.name());
            if (part == null) {
                own.add(p);
            } else if (states.parameter(p.name(), part.shape()).isF32()) {
                own.add(new Parameter(p.name(), part.of(p.tensor(), Arena.ofAuto()), p.use()));
            } else {
                own.add(p);
                cut.put(p.name(), part);
            }
        }
        offer(own);
    }

    /** Zeroes all gradient sums. */
    void zeroGradients() {
        zeroGradients(Set.of());
    }

    /**
     * Zeroes gradient sums.
     *
     * @param overwritten names of those that are written before they are read
     */
    void zeroGradients(Set<String> overwritten) {
        memory.zero(values.values().stream()
                .filter(v -> v.role() == ValueRole.GRADIENT && !overwritten.contains(v.name()))
                .toList());
    }

    /** Writes the gradient from which backward starts. */
    void writeLossGradient(Program program, float x) {
        Value seed = values.get(Program.LOSS_GRADIENT);
        if (seed == null) {
            throw new IllegalStateException("the program of " + program.steps().size() + " steps has no loss");
        }
        write(seed, Tensor.ofFloats(Arena.ofAuto(), seed.name(), seed.type().shape(), x));
    }

    /** Writes which masks of dropout are due, where programs have any. */
    void writeDraw(long step, long microBatch) {
        Value draw = values.get(Dropout.DRAW);
        if (draw != null) {
            write(draw, Tensor.ofLongs(Arena.ofAuto(), draw.name(), draw.type().shape(), step, microBatch));
        }
    }

    /** Reads a single F32 or F64. */
    double readNumber(Value value) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(value.type().byteSize(), 8);
            memory.read(value, bytes);
            return value.type().dtype() == DType.F64 ? bytes.get(Tensor.F64_LE, 0) : bytes.get(Tensor.F32_LE, 0);
        }
    }

    /** Elements of the F32 states with matching names, including those that no program uses. */
    Map<String, float[]> floats(Predicate<String> names) {
        Map<String, Fetched> fetched = new TreeMap<>();
        for (Value v : values.values()) {
            if (v.role() == ValueRole.STATE && v.type().dtype() == DType.F32 && names.test(v.name())) {
                fetched.put(v.name(), memory.fetch(v));
            }
        }
        Map<String, float[]> floats = new TreeMap<>();
        fetched.forEach((name, f) -> floats.put(name, f.bytes().toArray(Tensor.F32_LE)));
        waiting.forEach((name, tensor) -> {
            if (!parameters.contains(name) && tensor.dtype() == DType.F32 && names.test(name)) {
                floats.put(name, tensor.toFloats());
            }
        });
        return floats;
    }

    /** Elements of a parameter's gradient, times {@code factor}; of one that is kept in FP8 what its codes stand for. */
    float[] readGradient(String parameter, float factor) {
        Value v = values.values().stream()
                .filter(x -> x.role() == ValueRole.GRADIENT && x.name().equals("d:" + parameter))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("'" + parameter + "' is not trained"));
        try (Arena arena = Arena.ofConfined()) {
            CpuTensor t = new CpuTensor(v.type(), arena.allocate(v.type().byteSize(), 64));
            memory.read(v, t.bytes());
            float[] elements = new float[Math.toIntExact(t.count())];
            Optional<Float8Format> format = Float8Format.of(v.type().dtype());
            if (format.isPresent()) {
                float scale = (float) readNumber(requireNonNull(values.get(v.name() + ".scale"), v.name()));
                ElementCast.best().decode(format.get(), t.bytes(), 1, DType.F32, MemorySegment.ofArray(elements));
                for (int i = 0; i < elements.length; i++) {
                    elements[i] *= scale;
                }
            } else {
                t.read(0, elements, 0, elements.length);
            }
            for (int i = 0; i < elements.length; i++) {
                elements[i] *= factor;
            }
            return elements;
        }
    }

    private void write(Value value, Tensor saved) {
        if (saved.dtype() != value.type().dtype()
                || !saved.shape().equals(value.type().shape())) {
            throw new InvalidDataException(
                    "the checkpoint has '" + value.name() + "' as " + saved.dtype() + " " + saved.shape()
                            + ", but the program needs " + value.type(),
                    "state of the checkpoint",
                    "resume with the model, data and configuration it was written with");
        }
        memory.write(value, saved.bytes());
    }

    /** Whether a program uses a value of this name. */
    boolean has(String name) {
        return values.containsKey(name);
    }

    Memory memory() {
        return memory;
    }

    /** Lets go of what a view of this value brought into memory, see {@link Memory#settle}. */
    void settle(String name) {
        Value v = values.get(name);
        if (v != null) {
            memory.settle(v);
        }
    }

    /** Bytes of values that lie off the device between their uses, so far. */
    long offloadedBytes() {
        return memory.offloadedBytes();
    }

    /** Bytes of all values with a role so far. */
    long bytes(ValueRole role) {
        return values.values().stream()
                .filter(v -> v.role() == role)
                .mapToLong(v -> v.type().byteSize())
                .sum();
    }

    /** Bytes of some values so far. */
    long bytes(Predicate<Value> which) {
        return values.values().stream()
                .filter(which)
                .mapToLong(v -> v.type().byteSize())
                .sum();
    }

    /** Total bytes of all values so far. */
    long bytes() {
        return values.values().stream().mapToLong(v -> v.type().byteSize()).sum();
    }

    /** Shapes of all values with a role. */
    Map<String, Shape> shapes(ValueRole role) {
        Map<String, Shape> shapes = new TreeMap<>();
        values.values().stream()
                .filter(v -> v.role() == role)
                .forEach(v -> shapes.put(v.name(), v.type().shape()));
        return shapes;
    }

    /** Copies of all values with a role, including those that no program uses yet. */
    Map<String, Tensor> copies(ValueRole role, Arena arena) {
        return all(
                role,
                value -> {
                    Tensor copy = Tensor.allocate(arena, spec(value));
                    memory.read(value, copy.bytes());
                    return copy;
                },
                tensor -> copy(tensor, arena));
    }

    /** Copies of the values of {@code role} with matching names that a program uses. */
    Map<String, Tensor> copies(ValueRole role, Predicate<String> names, Arena arena) {
        Map<String, Tensor> tensors = new TreeMap<>();
        for (Value v : values.values()) {
            if (v.role() == role && names.test(v.name())) {
                Tensor copy = Tensor.allocate(arena, spec(v));
                memory.read(v, copy.bytes());
                tensors.put(v.name(), copy);
            }
        }
        return tensors;
    }

    /**
     * Views of all values with a role, including those that no program uses yet, valid until the next computation or write; see {@link
     * Memory#view}.
     */
    Map<String, Tensor> views(ValueRole role, Arena arena) {
        return all(role, value -> new Tensor(spec(value), memory.view(value, arena)), UnaryOperator.identity());
    }

    private Map<String, Tensor> all(ValueRole role, Function<Value, Tensor> onDevice, UnaryOperator<Tensor> whatWaits) {
        Map<String, Tensor> tensors = new TreeMap<>();
        for (Value v : values.values()) {
            if (v.role() == role) {
                tensors.put(v.name(), onDevice.apply(v));
            }
        }
        if (role == ValueRole.STATE) {
            waiting.forEach((name, tensor) -> {
                if (!parameters.contains(name)) {
                    tensors.put(name, whatWaits.apply(tensor));
                }
            });
        }
        return tensors;
    }

    private static TensorSpec spec(Value v) {
        return new TensorSpec(v.name(), v.type().dtype(), v.type().shape());
    }

    private static Tensor copy(Tensor tensor, Arena arena) {
        Tensor copy = Tensor.allocate(arena, tensor.spec());
        copy.bytes().copyFrom(tensor.bytes());
        return copy;
    }

    /**
     * Restores values; those that no program uses yet are kept.
     *
     * @throws InvalidDataException when a value has the wrong type or shape
     */
    void restore(Map<String, Tensor> saved) {
        saved.forEach((name, tensor) -> {
            Value v = values.get(name);
            if (v != null) {
                write(v, tensor);
            } else {
                Tensor aside =
                        new Tensor(tensor.spec(), memory.aside(tensor.bytes().byteSize()));
                aside.bytes().copyFrom(tensor.bytes());
                waiting.put(name, aside);
            }
        });
    }

    @Override
    public void close() {
        memory.close();
    }
}
