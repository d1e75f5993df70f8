package dev.octet.trainer.device.cuda;

import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Fetched;
import dev.octet.trainer.device.StepFrame;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.op.Ops;
import dev.octet.trainer.op.fp8.CudaCodes;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.MemoryPlan.Layout;
import dev.octet.trainer.program.MemoryPlan.Workspace;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.function.ToIntFunction;
import java.util.function.ToLongFunction;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** A loaded program: its work is prepared, and its temporaries, constants and workspaces share one allocation. */
final class CudaExecutable implements Executable {
    /**
     * @param steps steps done by these works, more than one if fused, and none if it is what steps share; measurements are attributed to the last
     * @param own instead of what steps share with others, for observers: done behind the works, or in their place where there are no steps
     * @param unread what fused steps leave out, for observers: done before the works
     * @param alone works of each of the steps where observers see them one by one, else none
     * @param spared values without memory here: the works take their forms
     * @param shown where some of them lie once the unread are done, which then are done behind the works
     */
    private record Part(
            List<Step> steps,
            List<Work> works,
            List<Work> own,
            List<Work> unread,
            List<List<Work>> alone,
            Set<Value> spared,
            Map<Value, Long> shown) {
        /** What steps share. */
        static Part shared(List<Work> works, List<Work> observed) {
            return new Part(List.of(), works, observed, List.of(), List.of(), Set.of(), Map.of());
        }

        Stream<Work> all() {
            return Stream.concat(
                    Stream.of(works, own, unread).flatMap(List::stream),
                    alone.stream().flatMap(List::stream));
        }
    }

    /**
     * What the first pass tells.
     *
     * @param lastReaders the last steps that take forms of values
     * @param spared values that steps name and do not touch: they take forms of them, or make them again
     * @param takers groups of steps that touch each value
     * @param workspaces by the first step of a group
     * @param awaited memory of what waits for a launch that steps share
     */
    private record Survey(
            Map<WorkWriter.Form, Step> lastReaders,
            Map<Step, Set<Value>> spared,
            Map<Value, Integer> takers,
            Map<Step, Workspace> workspaces,
            Map<WorkWriter.Awaited, Workspace> awaited) {
        Survey() {
            this(
                    new LinkedHashMap<>(),
                    new IdentityHashMap<>(),
                    new HashMap<>(),
                    new IdentityHashMap<>(),
                    new LinkedHashMap<>());
        }
    }

    /** Distance of provisional addresses: more than any value takes. */
    private static final long PROVISIONAL = 1L << 40;

    private final Program program;
    /** Which values share memory. */
    private final MemoryPlan roots;

    private final MemoryPlan plan;
    private final Map<WorkWriter.Form, MemoryPlan.Form> forms = new LinkedHashMap<>();
    private final CudaMemory memory;
    private final Gpu gpu;
    private final CudaQueue queue;
    private final List<CudaFusion> fusions;
    private final Map<Integer, CudaTensor> tensors = new HashMap<>();
    private final Map<Phase, List<Part>> parts = new EnumMap<>(Phase.class);
    /** Backward of a step's first micro-batch. */
    private final List<Part> firstBackward = new ArrayList<>();

    private final OverwrittenGradients overwritten;
    /** Length of each fused group, by its first step. */
    private final IdentityHashMap<Step, Integer> lengths = new IdentityHashMap<>();

    /** Where steps stand in the program. */
    private final IdentityHashMap<Step, Integer> numbers = new IdentityHashMap<>();

    private final PlacedParts parted;
    private final LongRows longRows;
    private final StreamPlan streams;
    /** What passes values of the host through the GPU, in lanes of their own. */
    private final Map<Phase, Streaming> streaming = new EnumMap<>(Phase.class);

    private long buffers;
    private final int[] readers;
    /** The steps of forward that make values, by their roots. */
    private final Map<Value, Step> makers;
    /** Offsets of values that a micro-batch keeps in memory of the host. */
    private final Map<Value, Long> hosted = new HashMap<>();

    private MemorySegment host = MemorySegment.NULL;
    private final long base;
    private final long bytes;
    private @Nullable StepObserver observer;
    /** The part that is observed. */
    private @Nullable Part observed;

    CudaExecutable(
            Program program, CudaMemory memory, Gpu gpu, CudaQueue queue, List<CudaFusion> fusions, long windowBytes) {
        this.program = program;
        this.memory = memory;
        this.gpu = gpu;
        this.queue = queue;
        this.fusions = fusions;
        program.steps().forEach(s -> numbers.put(s, numbers.size()));
        parted = fusions.isEmpty() ? PlacedParts.NONE : PlacedParts.of(program);
        roots = MemoryPlan.of(program, Layout.parts(parted.wholes()));
        OverwrittenGradients gradients =
                fusions.isEmpty() ? OverwrittenGradients.NONE : OverwrittenGradients.of(program, roots::root);
        memory.admit(program, gradients.values());
        WorkWriter first = WorkWriter.first(gpu);
        longRows = fusions.isEmpty() ? LongRows.NONE : LongRows.of(program, roots, first);
        streams = StreamPlan.of(program, roots, memory::isHosted, windowBytes);
        makers = makers();
        List<List<Step>> together = together();
        together.forEach(group -> lengths.put(group.getFirst(), group.size()));
        readers = readers();
        overwritten = fitting(gradients);
        Survey survey = survey(first);
        gpu.prepare(first.sources());
        survey.lastReaders().forEach((form, last) -> {
            Value of = valueAt(form.address());
            if (of.role().isInArena()) {
                forms.put(form, new MemoryPlan.Form(of, form.name(), first.bytes(form), last));
            }
        });
        List<Workspace> workspaces = new ArrayList<>(survey.workspaces().values());
        workspaces.addAll(survey.awaited().values());
        plan = MemoryPlan.of(
                program,
                new Layout(
                        together,
                        parted.wholes(),
                        List.copyOf(forms.values()),
                        survey.spared(),
                        workspaces,
                        longRows.bytes()));
        long hostBytes = placeHosted();
        long own = placeFrom(CudaMemory.ALIGNMENT);
        forms.keySet().forEach(form -> first.place(form, 0));
        bytes = own + first.bytes();
        base = gpu.allocate(
                bytes, "activations and workspaces of " + program.steps().size() + " steps");
        try {
            host = memory.lend(hostBytes + first.exchangeBytes());
            tensors.clear();
            placeFrom(base);
            program.constants().forEach((v, t) -> {
                if (t.bytes().byteSize() > 0) {
                    gpu.write(tensor(v).address(), t.bytes());
                }
            });
            forms.forEach((form, there) -> first.place(form, base + plan.offset(there)));
            WorkWriter second = first.second(base + own, host, host.asSlice(hostBytes, first.exchangeBytes()));
            transposeConstants(second);
            share(second);
            Map<WorkWriter.Awaited, Long> awaited = new HashMap<>();
            survey.awaited().forEach((key, memoryOf) -> awaited.put(key, address(memoryOf)));
            second.awaited(awaited);
            Set<Value> outputs =
                    program.outputs().values().stream().map(roots::root).collect(Collectors.toSet());
            second.taken(at -> {
                Value v = valueAt(at);
                return !v.role().isInArena()
                        || outputs.contains(v)
                        || survey.takers().getOrDefault(v, 0) > 1;
            });
            for (Phase phase : Phase.values()) {
                parts.put(phase, parts(phase, UnaryOperator.identity(), second, survey));
            }
            firstBackward.addAll(
                    overwritten.values().isEmpty()
                            ? parts.getOrDefault(Phase.BACKWARD, List.of())
                            : parts(Phase.BACKWARD, overwritten::first, second, survey));
            second.writeTables();
            for (Phase phase : Phase.values()) {
                if (!streams.windows(phase).isEmpty()) {
                    streaming.put(phase, new Streaming(gpu, memory, streams.windows(phase), this::bufferAt));
                }
            }
        } catch (RuntimeException e) { // for example, a kernel does not compile
            close();
            throw e;
        }
    }

    /** Codes among the constants come without the form that some products take. */
    private void transposeConstants(WorkWriter writer) {
        for (Value constant : program.constants().keySet()) {
            CudaTensor codes = tensor(constant);
            writer.begin(Map.of(codes.address(), provisional(constant).address()), 0);
            writer.transpose(codes);
        }
        List<Work> works = writer.take();
        if (!works.isEmpty()) {
            works.forEach(Work::run);
            gpu.synchronize();
            works.forEach(Work::close);
        }
    }

    /** Where a value lies before memory is allocated: no two values share an address. */
    private CudaTensor provisional(Value value) {
        return tensorAt(value, (roots.root(value).id() + 1L) * PROVISIONAL);
    }

    /** Whether a number that works name can be such an address. */
    private boolean isProvisional(long number) {
        return number >= PROVISIONAL && number / PROVISIONAL <= program.values().size();
    }

    /** The value that lies at a provisional address, by its root. */
    private Value valueAt(long provisional) {
        return program.values().get(Math.toIntExact(provisional / PROVISIONAL - 1));
    }

    /** Writes all steps on provisional addresses. */
    private Survey survey(WorkWriter writer) {
        share(writer);
        Survey survey = new Survey();
        for (Phase phase : Phase.values()) {
            survey(phase, UnaryOperator.identity(), writer, survey, (step, untouched, touched) -> {
                survey.spared().put(step, untouched);
                touched.forEach(v -> survey.takers().merge(v, 1, Integer::sum));
            });
            if (phase == Phase.BACKWARD && !overwritten.values().isEmpty()) {
                survey(phase, overwritten::first, writer, survey, (step, untouched, touched) -> {
                    Set<Value> both = new HashSet<>(survey.spared().getOrDefault(step, Set.of()));
                    both.retainAll(untouched);
                    survey.spared().put(step, both);
                });
            }
        }
        return survey;
    }

    /** Takes what the first pass tells of steps that are written together, by the first of them. */
    private interface Surveying {
        void take(Step first, Set<Value> untouched, Set<Value> touched);
    }

    private void survey(Phase phase, UnaryOperator<Step> form, WorkWriter writer, Survey survey, Surveying surveying) {
        emit(phase, form, (v, step, window) -> provisional(v), _ -> 0, writer, new Emission() {
            @Override
            public void group(List<Step> group, Group calls) {
                writer.take();
                writer.takeAlone();
                writeObserved(calls, writer);
                writer.take();
                Set<Value> touched = writer.touched().stream()
                        .filter(CudaExecutable.this::isProvisional)
                        .map(CudaExecutable.this::valueAt)
                        .collect(Collectors.toSet());
                writer.requested()
                        .forEach(requested ->
                                survey.lastReaders().merge(requested, group.getLast(), CudaExecutable.this::later));
                Stream<Value> named = group.size() > 1
                        ? group.stream().flatMap(s -> s.operands().stream()).map(roots::root)
                        : writer.requested().stream().map(requested -> valueAt(requested.address()));
                Set<Value> untouched = named.filter(v -> v.role().isInArena() && !touched.contains(v))
                        .collect(Collectors.toSet());
                surveying.take(group.getFirst(), untouched, touched);
                Set<Value> spared = survey.spared().getOrDefault(group.getFirst(), Set.of());
                group.forEach(s -> survey.spared().put(s, spared));
                if (writer.workspace() > 0) {
                    Workspace now = workspace(group, writer.workspace());
                    survey.workspaces().merge(group.getFirst(), now, (a, b) -> a.bytes() > b.bytes() ? a : b);
                }
            }

            @Override
            public void waited(Step last, Map<WorkWriter.Awaited, Long> read) {
                writer.take();
                read.forEach((key, size) -> survey.awaited()
                        .merge(
                                key,
                                workspace(List.of(program.steps().get(key.step()), last), size),
                                CudaExecutable.this::longer));
            }

            @Override
            public void ahead() {
                writer.take();
            }
        });
    }

    /** The one that comes later in the program: backward is surveyed in two forms, and memory is kept for both. */
    private Step later(Step a, Step b) {
        return a.equals(b) || program.steps().indexOf(a) > program.steps().indexOf(b) ? a : b;
    }

    private Workspace longer(Workspace a, Workspace b) {
        Step last = later(a.steps().getLast(), b.steps().getLast());
        return new Workspace(List.of(a.steps().getFirst(), last), Math.max(a.bytes(), b.bytes()));
    }

    private Map<Value, Step> makers() {
        Map<Value, Step> found = new HashMap<>();
        for (Step s : program.steps()) {
            if (!s.isView() && !s.backward()) {
                s.outputs().stream().filter(v -> v != null).forEach(v -> found.putIfAbsent(roots.root(v), s));
            }
        }
        return found;
    }

    /** The groups of fused steps. Found before memory is allocated. */
    private List<List<Step>> together() {
        int[] count = readers();
        List<List<Step>> groups = new ArrayList<>();
        for (Phase phase : Phase.values()) {
            List<Step> steps = computed(phase);
            List<CudaCall> calls = provisionalCalls(steps, count);
            int at = 0;
            while (at < steps.size()) {
                int length = length(calls.subList(0, streams.limit(phase, at, calls.size())), at);
                if (length > 1) {
                    groups.add(steps.subList(at, at + length));
                }
                at += Math.max(1, length);
            }
        }
        return groups;
    }

    private List<CudaCall> provisionalCalls(List<Step> steps, int[] count) {
        return steps.stream()
                .map(s -> call(s, this::provisional, v -> count[roots.root(v).id()]))
                .toList();
    }

    /** Those of gradients on the GPU that are overwritten by steps which run together as the steps that add to them do. */
    private OverwrittenGradients fitting(OverwrittenGradients gradients) {
        OverwrittenGradients fitting = gradients.without(
                program,
                roots::root,
                s -> s.operands().stream()
                        .map(roots::root)
                        .anyMatch(v -> v.role() == ValueRole.GRADIENT && memory.isHosted(v)));
        List<Step> steps = computed(Phase.BACKWARD);
        Set<Step> others = Collections.newSetFromMap(new IdentityHashMap<>());
        do {
            fitting = fitting.without(program, roots::root, others::contains);
            List<Step> now = steps.stream().map(fitting::first).toList();
            List<CudaCall> calls = provisionalCalls(now, readers);
            others.clear();
            for (int at = 0; at < steps.size(); ) {
                int planned = lengths.getOrDefault(steps.get(at), 1);
                int length = length(calls.subList(0, streams.limit(Phase.BACKWARD, at, calls.size())), at);
                if (Math.max(1, length) != planned) {
                    others.addAll(steps.subList(at, at + Math.max(planned, length)));
                }
                at += planned;
            }
        } while (others.stream().anyMatch(fitting.steps()::containsKey));
        return fitting;
    }

    /** Number of steps that the first matching fusion covers from here; 0 when none matches. */
    private int length(List<CudaCall> calls, int at) {
        return fused(calls, at).map(f -> f.length(calls, at)).orElse(0);
    }

    private List<Step> computed(Phase phase) {
        return program.steps(phase).stream().filter(s -> !s.isView()).toList();
    }

    private Optional<CudaFusion> fused(List<CudaCall> calls, int at) {
        return fusions.stream().filter(f -> f.length(calls, at) > 0).findFirst();
    }

    /** Number of steps that read each value, by id of its root, codes of it aside; outputs count one more. */
    private int[] readers() {
        int[] count = new int[program.values().size()];
        for (Step s : program.steps()) {
            if (s.isView()) {
                continue;
            }
            for (int i = 0; i < s.inputs().size(); i++) {
                if (s.backward() || s.op().forwardReadsInput(i)) {
                    count(s.inputs().get(i), count);
                }
            }
            (s.backward() ? s.outputs() : List.<Value>of()).forEach(v -> count(v, count));
            s.upstream().forEach(v -> count(v, count));
        }
        program.outputs().values().forEach(v -> count[roots.root(v).id()]++);
        return count;
    }

    private void count(@Nullable Value read, int[] count) {
        if (read != null) {
            count[roots.root(read).id()]++;
        }
    }

    /** Assigns offsets to the values in memory of the host; returns their total size. */
    private long placeHosted() {
        long at = 0;
        for (Value v : program.values()) {
            if (v.role() == ValueRole.HOSTED) {
                hosted.put(v, at);
                at += CudaMemory.aligned(v.type().byteSize());
            }
        }
        return at;
    }

    /** Assigns addresses to the arena and the constants, from {@code start} on; returns their total size. */
    private long placeFrom(long start) {
        long at = start + CudaMemory.aligned(plan.arenaBytes());
        for (Value v : program.constants().keySet()) {
            tensors.put(v.id(), new CudaTensor(v.type(), at));
            at += CudaMemory.aligned(v.type().byteSize());
        }
        for (Value v : program.inputs().values()) {
            if (!plan.isPlaced(v)) { // no step reads it
                tensors.put(v.id(), new CudaTensor(v.type(), at));
                at += CudaMemory.aligned(v.type().byteSize());
            }
        }
        for (Value v : program.values()) {
            if (!tensors.containsKey(v.id())) {
                Long address = address(v, start);
                if (address != null) {
                    tensors.put(v.id(), tensorAt(v, address));
                }
            }
        }
        buffers = at;
        return at + streams.bytes() - start;
    }

    private @Nullable Long address(Value value, long start) {
        Value root = roots.root(value);
        return switch (root.role()) {
            case PARAMETER, STORED, STATE, GRADIENT, PREPARED ->
                memory.isHosted(root) ? null : memory.tensor(root).address();
            case CONSTANT -> {
                CudaTensor constant = tensors.get(root.id());
                yield constant == null ? null : constant.address();
            }
            case HOSTED -> host.address() + Objects.requireNonNull(hosted.get(root));
            case INPUT, TEMPORARY -> plan.isPlaced(root) ? start + plan.offset(root) : null;
        };
    }

    /** @param root address of the value whose memory it uses */
    private CudaTensor tensorAt(Value value, long root) {
        PlacedParts.Part part = parted.of(value);
        return part == null ? longRows.tensor(value, roots.root(value), root) : PlacedParts.tensor(value, part, root);
    }

    private long bufferAt(StreamPlan.Window window) {
        return buffers + window.buffer() * streams.bufferBytes();
    }

    /** A value in a step of a window, or of none. */
    private CudaTensor tensor(Value value, StreamPlan.@Nullable Window window) {
        Value root = roots.root(value);
        Long offset = window == null ? null : window.offsets().get(root);
        return window == null || offset == null
                ? tensor(value)
                : new CudaTensor(value.type(), bufferAt(window) + offset);
    }

    private CudaTensor tensor(Value value) {
        CudaTensor t = tensors.get(value.id());
        if (t == null) {
            throw new IllegalStateException(value + " has no memory: no step touches it");
        }
        return t;
    }

    /** Where a step has its operands, in a window or in none. */
    private interface Placing {
        CudaTensor at(Value operand, Step step, StreamPlan.@Nullable Window window);
    }

    /**
     * Prepares the work of a phase.
     *
     * @param form what a step does here
     */
    private List<Part> parts(Phase phase, UnaryOperator<Step> form, WorkWriter writer, Survey survey) {
        Map<Step, Set<Value>> spared = survey.spared();
        Placing placing = (v, step, window) ->
                spared.getOrDefault(step, Set.of()).contains(roots.root(v)) ? provisional(v) : tensor(v, window);
        List<Part> list = new ArrayList<>();
        emit(phase, form, placing, first -> workspaceAt(survey, first), writer, new Emission() {
            @Override
            public void group(List<Step> steps, Group calls) {
                List<Work> works = writer.take();
                List<Work> own = writer.takeAlone();
                List<List<Work>> alone = writeObserved(calls, writer);
                list.add(new Part(
                        steps,
                        works,
                        own,
                        writer.take(),
                        alone,
                        spared.getOrDefault(steps.getFirst(), Set.of()),
                        shown(writer)));
            }

            @Override
            public void waited(Step last, Map<WorkWriter.Awaited, Long> read) {
                List<Work> works = writer.take();
                if (!works.isEmpty()) {
                    list.add(Part.shared(works, List.of()));
                }
            }

            @Override
            public void ahead() {
                List<Work> works = writer.take();
                if (!works.isEmpty()) {
                    list.addFirst(Part.shared(works, works));
                }
            }
        });
        return list;
    }

    private Map<Value, Long> shown(WorkWriter writer) {
        Map<Value, Long> shown = new HashMap<>();
        writer.shown().forEach((of, at) -> shown.put(valueAt(of), at));
        return shown;
    }

    /** Emits what observers see otherwise; the works of each step where they see them one by one. */
    private static List<List<Work>> writeObserved(Group calls, WorkWriter writer) {
        List<List<Work>> alone = new ArrayList<>();
        calls.fused().ifPresent(fusion -> {
            if (fusion.isSeenAlone()) {
                fusion.writeAlone(calls.own(), writer, () -> alone.add(writer.takePart()));
            } else {
                fusion.writeUnread(calls.own(), writer);
            }
        });
        return alone;
    }

    /** Where the workspace of a group lies, by its first step; 0 where it has none. */
    private long workspaceAt(Survey survey, Step first) {
        Workspace workspace = survey.workspaces().get(first);
        return workspace == null ? 0 : address(workspace);
    }

    private long address(Workspace workspace) {
        return CudaMemory.aligned(base + plan.offset(workspace));
    }

    /** Memory that begins at a multiple of {@link CudaMemory#ALIGNMENT}, which the arena does not ask for. */
    private static Workspace workspace(List<Step> steps, long size) {
        return new Workspace(steps, size + CudaMemory.ALIGNMENT - MemoryPlan.ALIGNMENT);
    }

    /** Steps that are written together, and what writes them if they are several. */
    private record Group(List<CudaCall> own, Optional<CudaFusion> fused) {}

    /** Takes what was written. */
    private interface Emission {
        /** Steps that are written together. */
        void group(List<Step> steps, Group calls);

        /**
         * Launches that steps share, due behind a step.
         *
         * @param read what they read, and the bytes of it
         */
        void waited(Step last, Map<WorkWriter.Awaited, Long> read);

        /** Launches that steps share, due before the phase. */
        void ahead();
    }

    /** Has steps share launches, where any run together. */
    private void share(WorkWriter writer) {
        if (!fusions.isEmpty()) {
            writer.share(at -> isOnGpu(at, ValueRole.GRADIENT), at -> isOnGpu(at, ValueRole.PARAMETER));
        }
    }

    private boolean isOnGpu(long number, ValueRole role) {
        Value v = isProvisional(number) ? valueAt(number) : null;
        return v != null && v.role() == role && !memory.isHosted(v);
    }

    /**
     * Emits the steps of a phase in a form, group by group.
     *
     * @param workspace where that of a group lies, by its first step
     */
    private void emit(
            Phase phase,
            UnaryOperator<Step> form,
            Placing placing,
            ToLongFunction<Step> workspace,
            WorkWriter writer,
            Emission emission) {
        List<Step> steps = computed(phase);
        List<CudaCall> calls = new ArrayList<>();
        List<Map<Long, Long>> surveyed = new ArrayList<>();
        for (int i = 0; i < steps.size(); i++) {
            Step step = steps.get(i);
            StreamPlan.Window window = streams.at(phase, i);
            calls.add(call(
                    form.apply(step),
                    v -> placing.at(v, step, window),
                    v -> readers[roots.root(v).id()]));
            Map<Long, Long> addresses = new HashMap<>();
            for (Value v : step.operands()) {
                addresses.put(
                        placing.at(v, step, window).address(), provisional(v).address());
            }
            surveyed.add(addresses);
        }
        for (int at = 0; at < steps.size(); ) {
            int length = lengths.getOrDefault(steps.get(at), 1);
            List<CudaCall> near = calls.subList(0, streams.limit(phase, at, calls.size()));
            Map<Long, Long> addresses = new HashMap<>();
            surveyed.subList(at, at + length).forEach(addresses::putAll);
            if (at > 0 && writer.awaits(addresses.values())) {
                emission.waited(steps.get(at - 1), writer.flush());
            }
            writer.begin(addresses, workspace.applyAsLong(steps.get(at)));
            if (!parted.isDone(steps.get(at))) {
                writer.at(Objects.requireNonNull(numbers.get(steps.get(at))));
                write(near, at, length, writer);
                writer.at(-1);
            }
            Optional<CudaFusion> fused = length > 1 ? fused(near, at) : Optional.empty();
            emission.group(steps.subList(at, at + length), new Group(near.subList(at, at + length), fused));
            at += length;
        }
        if (!steps.isEmpty()) {
            emission.waited(steps.getLast(), writer.flush());
            writer.writeAhead();
            emission.ahead();
        }
    }

    private CudaCall call(Step s, Function<Value, CudaTensor> operand, ToIntFunction<Value> readers) {
        return new CudaCall(
                s.op(),
                s.backward(),
                new StepFrame<>(s, operand),
                j -> readers(s.outputs(), j, readers),
                j -> readers(s.upstream(), j, readers),
                j -> readers(s.gradients(), j, readers),
                i -> origin(i < s.inputs().size() ? s.inputs().get(i) : null));
    }

    private CudaCall.@Nullable Origin origin(@Nullable Value value) {
        if (value == null) {
            return null;
        }
        Value root = roots.root(value);
        Step maker = makers.get(root);
        return new CudaCall.Origin(
                root.id(),
                maker == null ? null : maker.op(),
                maker == null
                        ? List.of()
                        : maker.inputs().stream()
                                .map(v -> v == null ? -1 : roots.root(v).id())
                                .toList());
    }

    private static int readers(List<? extends @Nullable Value> values, int at, ToIntFunction<Value> readers) {
        Value v = at < values.size() ? values.get(at) : null;
        return v == null ? 0 : readers.applyAsInt(v);
    }

    /** Emits the step with this number and the steps fused with it. */
    private void write(List<CudaCall> calls, int at, int length, WorkWriter writer) {
        if (length > 1) {
            CudaFusion fusion = fused(calls, at).orElseThrow();
            if (fusion.length(calls, at) != length) {
                throw new IllegalStateException("fusion differs from the plan");
            }
            fusion.write(calls.subList(at, at + length), writer);
            return;
        }
        CudaCall call = calls.get(at);
        OpEntry<Op> entry = Ops.of(call.op());
        CudaKernel<Op> kernel = entry.cuda();
        if (call.backward()) {
            kernel.backward(call.op(), call.frame(), writer);
        } else {
            kernel.forward(call.op(), call.frame(), writer);
        }
    }

    @Override
    public Program program() {
        return program;
    }

    @Override
    public long bytes() {
        return bytes;
    }

    @Override
    public void feed(Value input, MemorySegment from) {
        queue.write(tensor(input).address(), from);
    }

    @Override
    public void stage(Value input, MemorySegment from) {
        queue.stage(tensor(input).address(), from);
    }

    @Override
    public void run(Phase phase) {
        run(phase, parts.getOrDefault(phase, List.of()));
    }

    @Override
    public Set<Value> overwritten() {
        return overwritten.values();
    }

    @Override
    public void runFirstBackward() {
        run(Phase.BACKWARD, firstBackward);
    }

    private void run(Phase phase, List<Part> list) {
        Streaming copies = streaming.get(phase);
        int at = 0;
        for (Part part : list) {
            StepObserver watching = observer;
            if (part.steps().isEmpty()) {
                (watching == null ? part.works() : part.own()).forEach(queue::add);
                continue;
            }
            StreamPlan.Window window = copies == null ? null : streams.at(phase, at);
            if (copies != null && window != null && at == window.from()) {
                (watching == null ? copies.before(window) : copies.beforeAlone(window)).forEach(queue::add);
            }
            if (watching == null) {
                part.works().forEach(queue::add);
            } else {
                watch(part, watching);
            }
            at += part.steps().size();
            if (copies != null && window != null && at == window.end()) {
                (watching == null ? copies.after(window) : copies.afterAlone(window)).forEach(queue::add);
            }
        }
    }

    /** The value in host memory that {@code value} is or is a view of; null where it lies on the GPU. */
    private @Nullable Value hosted(Value value) {
        Value root = roots.root(value);
        return root.role().isShared() && memory.isHosted(root) ? root : null;
    }

    private void watch(Part part, StepObserver watching) {
        if (!part.alone().isEmpty()) {
            watchAlone(part, watching);
            return;
        }
        queue.finish();
        boolean before = part.shown().isEmpty();
        if (before) {
            part.unread().forEach(queue::add);
            queue.finish();
        }
        long start = System.nanoTime();
        part.works().forEach(queue::add);
        part.own().forEach(queue::add);
        queue.finish();
        long nanos = System.nanoTime() - start;
        if (!before) {
            part.unread().forEach(queue::add);
            queue.finish();
        }
        // fused steps: the last one gets the time
        int last = part.steps().size() - 1;
        for (int i = 0; i <= last; i++) {
            tell(part, i, i == last ? nanos : 0, watching);
        }
    }

    private void watchAlone(Part part, StepObserver watching) {
        for (int i = 0; i < part.steps().size(); i++) {
            queue.finish();
            long start = System.nanoTime();
            part.alone().get(i).forEach(queue::add);
            queue.finish();
            tell(part, i, System.nanoTime() - start, watching);
        }
    }

    private void tell(Part part, int step, long nanos, StepObserver watching) {
        observed = part;
        if (!part.steps().get(step).repeats()) {
            watching.after(part.steps().get(step), nanos, this);
        }
        observed = null;
    }

    @Override
    public void read(Value value, MemorySegment to) {
        Value onHost = hosted(value);
        if (onHost != null) {
            memory.read(onHost, to);
            return;
        }
        queue.start();
        PlacedParts.Part part = parted.of(value);
        Long shown = observed == null ? null : observed.shown().get(roots.root(value));
        if (shown != null) {
            gpu.read(shown, to);
        } else if (longRows.pitch(roots.root(value)) > 0) {
            longRows.read(value, roots.root(value), tensor(value).address(), gpu, to);
        } else if (observed != null && observed.spared().contains(roots.root(value))) {
            readTransposed(value, to);
        } else if (part != null) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment whole = arena.allocate(part.whole().type().byteSize(), 8);
                gpu.read(tensor(part.whole()).address(), whole);
                part.copy(value, whole, to);
            }
        } else if (to.byteSize() > 0) {
            gpu.read(tensor(value).address(), to);
        }
    }

    /** Reads codes of which the steps at work have the transpose only. */
    private void readTransposed(Value codes, MemorySegment to) {
        MemoryPlan.Form form = forms.values().stream()
                .filter(f -> f.of().equals(roots.root(codes)) && f.name().equals(CudaCodes.TRANSPOSED))
                .findFirst()
                .orElseThrow();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment transposed = arena.allocate(form.bytes(), 8);
            gpu.read(base + plan.offset(form), transposed);
            CudaCodes.transposeBack(transposed, codes.type().shape(), to);
        }
    }

    @Override
    public Fetched fetch(Value value) {
        Value onHost = hosted(value);
        if (onHost != null) {
            return memory.fetch(onHost);
        }
        if (parted.of(value) != null || longRows.pitch(roots.root(value)) > 0 || observed != null) {
            MemorySegment bytes = Arena.ofAuto().allocate(value.type().byteSize(), 8);
            read(value, bytes);
            return () -> bytes;
        }
        CudaTensor t = tensor(value);
        return queue.fetch(t.address(), t.byteSize());
    }

    @Override
    public void observe(@Nullable StepObserver newObserver) {
        observer = newObserver;
    }

    @Override
    public void close() {
        List<Work> works = new ArrayList<>(Stream.concat(parts.values().stream(), Stream.of(firstBackward))
                .flatMap(List::stream)
                .flatMap(Part::all)
                .toList());
        streaming.values().forEach(s -> works.addAll(s.works()));
        queue.forget(works, base, bytes);
        gpu.release(base);
        memory.takeBack(host);
    }
}
