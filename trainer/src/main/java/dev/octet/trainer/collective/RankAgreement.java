package dev.octet.trainer.collective;

import dev.octet.formats.error.InvalidOptionException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/** Whether all ranks are about to do the same. */
public final class RankAgreement {
    private static final int SHOWN = 4;

    private RankAgreement() {}

    /**
     * Compares what the ranks know.
     *
     * @param own facts of this rank by name, one line each
     * @throws InvalidOptionException on every rank, with the names of the facts in which the first rank that differs from rank 0 does
     */
    public static void require(Collectives world, Map<String, String> own) {
        if (world.isAlone()) {
            return;
        }
        StringBuilder text = new StringBuilder();
        new TreeMap<>(own)
                .forEach((key, value) -> text.append(key)
                        .append('=')
                        .append(value.replace('\n', ' '))
                        .append('\n'));
        List<byte[]> all = world.gather(text.toString().getBytes(StandardCharsets.UTF_8));
        Map<String, String> first = facts(all.getFirst());
        for (int r = 1; r < all.size(); r++) {
            Map<String, String> other = facts(all.get(r));
            if (!other.equals(first)) {
                throw new InvalidOptionException(
                        "rank " + world.worldRank(r) + " is about to do something else than rank " + world.worldRank(0)
                                + ": " + differences(first, other),
                        "what the ranks of the run read: configuration, model, data, checkpoint",
                        "give all ranks the same files and options");
            }
        }
    }

    private static Map<String, String> facts(byte[] text) {
        Map<String, String> facts = new TreeMap<>();
        new String(text, StandardCharsets.UTF_8).lines().forEach(line -> {
            int end = line.indexOf('=');
            facts.put(line.substring(0, end), line.substring(end + 1));
        });
        return facts;
    }

    private static String differences(Map<String, String> first, Map<String, String> other) {
        TreeSet<String> keys = new TreeSet<>(first.keySet());
        keys.addAll(other.keySet());
        List<String> differing = keys.stream()
                .filter(k -> !first.getOrDefault(k, "none").equals(other.getOrDefault(k, "none")))
                .map(k -> k + " is " + other.getOrDefault(k, "none") + ", not " + first.getOrDefault(k, "none"))
                .toList();
        String more = differing.size() > SHOWN ? " and " + (differing.size() - SHOWN) + " more" : "";
        return String.join("; ", differing.subList(0, Math.min(SHOWN, differing.size()))) + more;
    }
}
