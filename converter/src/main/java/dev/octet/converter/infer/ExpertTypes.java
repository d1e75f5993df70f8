package dev.octet.converter.infer;

import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Operators of mixtures of experts, all in Octet's domain. How many rows an expert gets is not known before the model runs. */
final class ExpertTypes {
    static final Map<String, TypeRule> RULES = Map.of(
            CanonicalOps.EXPERT_ROWS,
            ExpertTypes::rows,
            CanonicalOps.EXPERT_SUM,
            t -> t.set(0, t.dtype(1), weighted(t.dims(0), Dim.of(t.node().intAttribute("size", 0)))),
            CanonicalOps.EXPERT_DISPATCH,
            ExpertTypes::dispatch,
            CanonicalOps.EXPERT_COMBINE,
            t -> t.set(0, t.dtype(0), weighted(t.dims(2), last(t.dims(0)))),
            CanonicalOps.GROUPED_LINEAR,
            ExpertTypes::linear);

    private ExpertTypes() {}

    private static void rows(NodeTypes t) {
        t.set(0, t.dtype(0), List.of(Dim.UNKNOWN, last(t.dims(0))));
        t.set(1, DType.I64, List.of(Dim.UNKNOWN));
    }

    private static void dispatch(NodeTypes t) {
        List<Dim> chosen = t.dims(1);
        Dim slots = Dim.of(1);
        for (Dim d : chosen == null ? List.of(Dim.UNKNOWN) : chosen) {
            slots = slots.size() == null || d.size() == null ? Dim.UNKNOWN : Dim.of(slots.size() * d.size());
        }
        t.set(0, t.dtype(0), List.of(slots, last(t.dims(0))));
        t.set(1, DType.I64, List.of(slots));
        t.set(2, DType.I64, List.of(Dim.of(t.node().intAttribute("experts", 0) + 1)));
    }

    private static void linear(NodeTypes t) {
        List<Dim> x = t.dims(0);
        List<Dim> w = t.dims(2);
        boolean transB = t.node().intAttribute("transB", 0) != 0;
        t.set(
                0,
                t.dtype(0),
                List.of(
                        x == null || x.isEmpty() ? Dim.UNKNOWN : x.getFirst(),
                        w == null || w.size() != 2 ? Dim.UNKNOWN : w.get(transB ? 0 : 1)));
    }

    private static @Nullable List<Dim> weighted(@Nullable List<Dim> weights, Dim size) {
        if (weights == null || weights.isEmpty()) {
            return null;
        }
        List<Dim> dims = new ArrayList<>(weights);
        dims.set(dims.size() - 1, size);
        return dims;
    }

    private static Dim last(@Nullable List<Dim> dims) {
        return dims == null || dims.isEmpty() ? Dim.UNKNOWN : dims.getLast();
    }
}
