package dev.octet.trainer.cut;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.autodiff.ReadGraph;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.attention.Attention;
import dev.octet.trainer.op.shard.GroupOp;
import dev.octet.trainer.op.shard.SharedTensor;
import dev.octet.trainer.op.shard.SumNumbers;
import dev.octet.trainer.op.update.AdafactorStep;
import dev.octet.trainer.op.update.FiniteGradients;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;

/**
 * A model that tensor-parallel ranks share, as one of them has it (Shoeybi et al., arXiv:1909.08053). Weights are cut by columns where what they make is cut, and by rows where ranks add up results; tables and
 * output layers by the vocabulary. Everything else is on all ranks, which compute it alike.
 *
 * @param model the rank's graph, with what it exchanges
 * @param rank of this one
 * @param ofRanks what each rank has of each weight that is cut, by name
 * @param shared Linears of which each rank has a part
 * @param whole Linears that all have
 * @param summed those of the shared ones whose results ranks add up, as they have parts of rows and not of columns, with the nodes that then have the result
 */
public record TensorCut(
        GraphModel model,
        int rank,
        List<Map<String, Part>> ofRanks,
        List<String> shared,
        List<String> whole,
        Map<String, String> summed) {
    /** Divisors that a message names. */
    private static final int SHOWN = 6;

    public TensorCut {
        ofRanks = ofRanks.stream()
                .map(parts -> Collections.unmodifiableMap(new TreeMap<>(parts)))
                .toList();
        shared = List.copyOf(shared);
        whole = List.copyOf(whole);
        summed = Map.copyOf(summed);
    }

    /**
     * Cuts a graph.
     *
     * @param model with concrete shapes and a loss
     * @param options what a training program needs of it
     * @param place of the rank
     * @param kept parts of constants that stay in their file's bytes, by name; those that are made are added, so that programs of other shapes have the same
     * @throws InvalidOptionException when a weight that would be cut stays in codes, when heads, or the features of a layer, are not divided by the number of ranks, and when there is no layer to share
     */
    public static TensorCut of(GraphModel model, ProgramOptions options, CutPlace place, Map<String, Tensor> kept) {
        ReadGraph graph = ReadGraph.of(model, options);
        CutSearch search = new CutSearch(graph, model.graph().initializers(), place.ranks());
        search.run();
        if (!search.coded().isEmpty()) {
            throw new InvalidOptionException(
                    "'" + search.coded().iterator().next()
                            + "' stays in the codes of its file, and ranks have parts of floats alone",
                    "distributed.tensor: " + place.ranks() + ", "
                            + search.coded().size() + " weights",
                    "dequantise the base first (octet dequantize), or leave tensor out");
        }
        requireEven(graph, search, place);
        List<String> shared = new ArrayList<>();
        List<String> whole = new ArrayList<>();
        Map<String, String> summed = new TreeMap<>();
        for (Node node : graph.nodes()) {
            if (node.isOctet("Linear")) {
                boolean cut = search.cuts().containsKey(node.input(1));
                (cut ? shared : whole).add(node.id());
                if (cut && search.isSummed(node)) {
                    summed.put(node.id(), CutWriter.summing(node));
                }
            }
        }
        if (shared.isEmpty()) {
            throw new InvalidOptionException(
                    "no layer of the model can be shared out"
                            + (search.failures().isEmpty()
                                    ? ""
                                    : ": " + search.failures().getFirst()),
                    "distributed.tensor: " + place.ranks(),
                    "leave tensor out");
        }
        Set<String> parameters = new TreeSet<>(options.parameters());
        List<Map<String, Part>> ofRanks = new ArrayList<>();
        for (int r = 0; r < place.ranks(); r++) {
            Map<String, Part> parts = new TreeMap<>();
            int rank = r;
            search.cuts().forEach((name, cut) -> {
                if (parameters.contains(name)) {
                    parts.put(name, cut.part(graph.type(name).shape(), rank, place.ranks()));
                }
            });
            ofRanks.add(parts);
        }
        Graph own = new CutWriter(model.graph(), graph, search, place, parameters).write(options.stored(), kept);
        return new TensorCut(model.withGraph(own), place.rank(), ofRanks, shared, whole, summed);
    }

    /** Rejects heads and features that ranks cannot have equally many of; vocabularies need not be even. */
    private static void requireEven(ReadGraph graph, CutSearch search, CutPlace place) {
        int ranks = place.ranks();
        BigInteger common = BigInteger.ZERO;
        String first = "";
        for (Node node : graph.nodes()) {
            if (graph.op(node) instanceof Attention a && search.cuts().containsKey(node.output())) {
                common = common.gcd(BigInteger.valueOf(a.heads())).gcd(BigInteger.valueOf(a.keyHeads()));
                boolean uneven = a.heads() % ranks != 0 || a.keyHeads() % ranks != 0;
                first = uneven && first.isEmpty()
                        ? a.heads() + " heads"
                                + (a.keyHeads() == a.heads() ? "" : " and " + a.keyHeads() + " of keys and values")
                                + " of '" + node.id() + "'"
                        : first;
            }
        }
        for (Node node : graph.nodes()) {
            for (String value : node.outputs()) {
                Cut cut = search.cuts().get(value);
                if (cut == null || search.isOfVocabulary(value)) {
                    continue;
                }
                for (long segment : cut.segments()) {
                    common = common.gcd(BigInteger.valueOf(segment));
                }
                first = !cut.isEven(ranks) && first.isEmpty()
                        ? "an axis of " + cut.size() + " that '" + node.id() + "' computes"
                        : first;
            }
        }
        if (!first.isEmpty()) {
            long all = common.longValueExact();
            String divisors = LongStream.rangeClosed(2, Math.min(all, ranks * 64L))
                    .filter(d -> all % d == 0)
                    .limit(SHOWN)
                    .mapToObj(String::valueOf)
                    .collect(Collectors.joining(", "));
            throw new InvalidOptionException(
                    first + " cannot be shared out evenly to " + ranks + " ranks",
                    "distributed.tensor: " + ranks,
                    divisors.isEmpty() ? "leave tensor out" : "choose one of " + divisors + ", or leave tensor out");
        }
    }

    /** What this rank has of each weight that is cut. */
    public Map<String, Part> parts() {
        return ofRanks.get(rank);
    }

    /**
     * Weights that are cut, for what needs the whole of them.
     *
     * @param ranks that have the parts
     */
    @SuppressWarnings("exports") // what the update of a session takes
    public Map<String, SharedTensor> shared(Collectives ranks) {
        Map<String, SharedTensor> all = new TreeMap<>();
        parts().forEach((name, part) -> {
            int segments = part.ranges().size();
            List<Long> shares = ofRanks.stream()
                    .map(of -> Objects.requireNonNull(of.get(name)).shape().dim(part.axis()) / segments)
                    .toList();
            all.put(name, new SharedTensor(part.whole(), part.axis(), segments, shares, rank, ranks));
        });
        return all;
    }

    /** A whole weight, out of the bytes of what each rank has of it. */
    public Tensor whole(TensorSpec own, List<byte[]> each, Arena arena) {
        Tensor all = Tensor.allocate(
                arena,
                new TensorSpec(
                        own.name(),
                        own.dtype(),
                        Objects.requireNonNull(parts().get(own.name())).whole()));
        for (int r = 0; r < each.size(); r++) {
            Part part = Objects.requireNonNull(ofRanks.get(r).get(own.name()));
            TensorSpec spec = new TensorSpec(own.name(), own.dtype(), part.shape());
            part.into(new Tensor(spec, MemorySegment.ofArray(each.get(r))), all);
        }
        return all;
    }

    /** A program of this graph whose steps know the ranks. */
    public Program among(Program program, Collectives ranks) {
        List<Step> steps = program.steps().stream()
                .map(s -> s.op() instanceof GroupOp op ? s.with(op.among(ranks)) : s)
                .toList();
        return program.with(program.values(), steps);
    }

    /** An update whose norm counts the gradients of all ranks: of parameters that are cut the parts, of others once. */
    public UpdateProgram among(UpdateProgram update, Collectives ranks) {
        Program program = update.program();
        Map<String, Value> states = new LinkedHashMap<>();
        program.values().forEach(v -> states.put(v.name(), v));
        List<Value> squares = new ArrayList<>();
        update.squares().forEach((parameter, square) -> {
            Value own = states.get(square.name());
            if (parts().containsKey(parameter) && own != null) {
                squares.add(own);
            }
        });
        List<Step> steps = new ArrayList<>();
        for (Step step : program.steps()) {
            if (step.op() instanceof FiniteGradients && !squares.isEmpty()) {
                SumNumbers sum =
                        new SumNumbers(squares.stream().map(Value::type).toList(), ranks.rank(), ranks);
                steps.add(new Step(
                        Phase.UPDATE,
                        "squares",
                        sum,
                        false,
                        List.copyOf(squares),
                        List.copyOf(squares),
                        List.of(),
                        List.of(),
                        Set.of()));
            }
            steps.add(step);
        }
        return update.with(program.with(program.values(), steps));
    }

    /** The same without its graph, which holds the weights. */
    public TensorCut withoutModel() {
        Graph none = new Graph(
                model.graph().name(), List.of(), Map.of(), List.of(), List.of(), Map.of(), "", Map.of(), Bytes.EMPTY);
        return new TensorCut(model.withGraph(none), rank, ofRanks, shared, whole, summed);
    }

    /** What the rank has of weights that are cut, and of the states that an update keeps for each of their elements. */
    public Map<String, Part> withStates(UpdateProgram update) {
        Map<String, Part> all = new TreeMap<>(parts());
        for (Step step : update.program().steps()) {
            Part part = parts().get(step.node());
            for (Value v : step.operands()) {
                if (part != null
                        && v.role() == ValueRole.STATE
                        && v.type().shape().equals(part.shape())) {
                    all.put(v.name(), part);
                }
            }
            if (part != null && step.op() instanceof AdafactorStep op) {
                moments(op, part, step.outputs()).forEach(all::put);
            }
        }
        return all;
    }

    /** What the rank has of the moments of rows and columns: their axes are those of the weight, without one of the last two. */
    private static Map<String, Part> moments(AdafactorStep op, Part weight, List<@Nullable Value> outputs) {
        Map<String, Part> parts = new TreeMap<>();
        int next = 1;
        for (OperandType whole : op.rule()
                .memory(new OperandType(op.p().dtype(), weight.whole()))
                .values()) {
            Value own = Objects.requireNonNull(outputs.get(next++));
            for (int axis = 0; axis < whole.shape().rank(); axis++) {
                if (whole.shape().dim(axis) != own.type().shape().dim(axis)) {
                    parts.put(own.name(), new Part(whole.shape(), axis, weight.ranges()));
                }
            }
        }
        return parts;
    }

    /** Elements that this rank has of weights that are cut, and how many these have in all. */
    public long elements(boolean ofAll) {
        return parts().values().stream()
                .map(p -> ofAll ? p.whole() : p.shape())
                .mapToLong(Shape::elementCount)
                .sum();
    }
}
