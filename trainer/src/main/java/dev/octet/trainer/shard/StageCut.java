package dev.octet.trainer.shard;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.activation.StepCost;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Roots;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Where a model is cut into parts for the stages of a pipeline: between two nodes where one activation alone passes, as the residual stream does between blocks, so that the
 * costliest part costs as little as can be; of equals where fewest bytes pass. Each part has a product of matrices.
 *
 * @param parts how many
 * @param partOf the part of each node with a step in forward, in their order
 */
record StageCut(int parts, Map<String, Integer> partOf) {
    StageCut {
        partOf = Collections.unmodifiableMap(new LinkedHashMap<>(partOf));
    }

    /**
     * Cuts the model of a training program.
     *
     * @throws InvalidOptionException when it has too few places
     */
    static StageCut of(Program training, int stages, int chunks) {
        return new Search(training).cut(stages, chunks);
    }

    /** The part of each step of forward, then of backward, of a program of the same model. */
    List<Integer> partsOf(Program program) {
        List<Integer> all = new ArrayList<>();
        int part = 0;
        for (Step s : program.steps(Phase.FORWARD)) {
            part = Math.max(part, partOf.getOrDefault(s.node(), part)); // a node that other shapes do not have follows
            all.add(part);
        }
        part = parts - 1;
        for (Step s : program.steps(Phase.BACKWARD)) {
            part = Math.min(part, partOf.getOrDefault(s.node(), part));
            all.add(part);
        }
        return all;
    }

    private static final class Search {
        private final List<Step> forward;
        /** Weight of the steps before each, forward and backward. */
        private final long[] cost;
        /** Products before each step. */
        private final int[] products;
        /** Bytes that pass in front of a step; -1 where no cut is. */
        private final long[] passing;

        Search(Program program) {
            forward = program.steps(Phase.FORWARD);
            int n = forward.size();
            Map<String, Long> backward = new HashMap<>();
            program.steps(Phase.BACKWARD)
                    .forEach(s -> backward.merge(s.node(), StepCost.of(s).weight(), Long::sum));
            cost = new long[n + 1];
            products = new int[n + 1];
            for (int i = 0; i < n; i++) {
                Step s = forward.get(i);
                Long also = backward.remove(s.node());
                cost[i + 1] = cost[i] + StepCost.of(s).weight() + (also == null ? 0 : also);
                products[i + 1] = products[i] + (StepCost.isProduct(s) ? 1 : 0);
            }
            passing = passing(program, n);
        }

        private long[] passing(Program program, int n) {
            Roots roots = Roots.of(program);
            Preliminaries preliminaries = Preliminaries.of(program);
            Map<Value, Integer> made = new HashMap<>();
            Map<Value, Integer> last = new HashMap<>();
            for (int i = 0; i < n; i++) {
                for (Value v : forward.get(i).operands()) {
                    Value root = roots.of(v);
                    if (root.role() == ValueRole.TEMPORARY
                            && !preliminaries.results().contains(root)) {
                        made.putIfAbsent(root, i);
                        last.put(root, i);
                    }
                }
            }
            int[] count = new int[n + 1];
            long[] bytes = new long[n + 1];
            made.forEach((root, from) -> {
                for (int p = from + 1; p <= last.getOrDefault(root, from); p++) {
                    count[p]++;
                    bytes[p] += root.type().byteSize();
                }
            });
            boolean[] withinNode = withinNode(n);
            int results = firstResult(program, roots, made, n);
            for (int p = 0; p <= n; p++) {
                if (p == 0 || p > results || withinNode[p] || count[p] != 1) {
                    bytes[p] = -1;
                }
            }
            return bytes;
        }

        /** In front of which steps a node has begun and not ended. */
        private boolean[] withinNode(int n) {
            Map<String, Integer> first = new HashMap<>();
            boolean[] within = new boolean[n + 1];
            for (int i = 0; i < n; i++) {
                int begin = first.computeIfAbsent(forward.get(i).node(), _ -> Integer.MAX_VALUE);
                if (begin == Integer.MAX_VALUE) {
                    first.put(forward.get(i).node(), i);
                } else {
                    Arrays.fill(within, begin + 1, i + 1, true);
                }
            }
            return within;
        }

        /** The first step that makes something which is read after forward: the loss, and its terms. All of it is the last part's. */
        private static int firstResult(Program program, Roots roots, Map<Value, Integer> made, int n) {
            Set<Value> read = new HashSet<>();
            program.outputs().values().forEach(v -> read.add(roots.of(v)));
            return read.stream().mapToInt(r -> made.getOrDefault(r, n)).min().orElse(n);
        }

        StageCut cut(int stages, int chunks) {
            int parts = stages * chunks;
            List<Integer> places = new ArrayList<>(List.of(0));
            for (int p = 1; p < passing.length; p++) {
                if (passing[p] >= 0 && products[p] > 0 && products[p] < products[forward.size()]) {
                    places.add(p);
                }
            }
            places.add(forward.size());
            int most = mostParts(places);
            if (parts > most) {
                throw new InvalidOptionException(
                        "the model cannot be cut into " + parts + " parts, only into " + most
                                + " with a product of matrices each, between which one activation passes",
                        "distributed: {pipeline: " + stages + (chunks == 1 ? "" : ", chunks: " + chunks) + "}",
                        most == 1
                                ? "leave pipeline out"
                                : "set pipeline" + (chunks == 1 ? "" : " times chunks") + " to " + most + " or fewer");
            }
            int[] cuts = best(places, parts);
            Map<String, Integer> partOf = new LinkedHashMap<>();
            int part = 0;
            for (int i = 0; i < forward.size(); i++) {
                while (part + 1 < parts && cuts[part] == i) {
                    part++;
                }
                partOf.putIfAbsent(forward.get(i).node(), part);
            }
            return new StageCut(parts, partOf);
        }

        private int mostParts(List<Integer> places) {
            int count = 0;
            int from = 0;
            for (int p : places) {
                if (products[p] > products[from]) {
                    count++;
                    from = p;
                }
            }
            return Math.max(1, count);
        }

        /** Steps in front of which the parts after the first begin. */
        private int[] best(List<Integer> places, int parts) {
            int m = places.size();
            long[][] worst = new long[parts + 1][m];
            long[][] moved = new long[parts + 1][m];
            int[][] from = new int[parts + 1][m];
            for (long[] row : worst) {
                Arrays.fill(row, Long.MAX_VALUE);
            }
            worst[0][0] = 0;
            for (int k = 1; k <= parts; k++) {
                for (int j = k; j < m; j++) {
                    for (int i = k - 1; i < j; i++) {
                        int begin = places.get(i);
                        int end = places.get(j);
                        if (worst[k - 1][i] == Long.MAX_VALUE || products[begin] == products[end]) {
                            continue;
                        }
                        long bad = Math.max(worst[k - 1][i], cost[end] - cost[begin]);
                        long bytes = moved[k - 1][i] + Math.max(0, passing[end]);
                        if (bad < worst[k][j] || (bad == worst[k][j] && bytes < moved[k][j])) {
                            worst[k][j] = bad;
                            moved[k][j] = bytes;
                            from[k][j] = i;
                        }
                    }
                }
            }
            int[] cuts = new int[parts - 1];
            int at = m - 1;
            for (int k = parts; k > 1; k--) {
                at = from[k][at];
                cuts[k - 2] = places.get(at);
            }
            return cuts;
        }
    }
}
