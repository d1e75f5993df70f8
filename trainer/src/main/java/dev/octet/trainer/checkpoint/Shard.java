package dev.octet.trainer.checkpoint;

import dev.octet.formats.ModelFile;
import dev.octet.formats.error.MalformedModelException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;

/**
 * A rank's share of the state, or of the parameters, in a checkpoint, a file of its own: {@code state-00002-of-00004.safetensors} is that of rank 1 of 4. What is not shared out
 * is {@code state.safetensors}.
 *
 * @param rank from 0
 * @param ranks how many have a share
 */
record Shard(int rank, int ranks) {
    /** All of it. */
    static final Shard WHOLE = new Shard(0, 1);

    private static final String SUFFIX = ".safetensors";
    private static final String STEP = "step";

    /** @param whole the file's name if nothing were shared out */
    String file(String whole) {
        String stem = whole.substring(0, whole.length() - SUFFIX.length());
        return ranks == 1 ? whole : String.format(Locale.ROOT, "%s-%05d-of-%05d%s", stem, rank + 1, ranks, SUFFIX);
    }

    /** What the file says of itself. */
    Map<String, String> metadata(long step) {
        return ranks == 1 ? Map.of() : Map.of(STEP, String.valueOf(step), "rank", rank + " of " + ranks);
    }

    /** The shares of a checkpoint that lists these files: all that there should be, listed or not. */
    static List<Shard> of(String whole, Collection<String> files) {
        String stem = Pattern.quote(whole.substring(0, whole.length() - SUFFIX.length()));
        Pattern name = Pattern.compile(stem + "-(\\d{5})-of-(\\d{5})" + Pattern.quote(SUFFIX));
        for (String file : files) {
            Matcher m = name.matcher(file);
            if (m.matches()) {
                int ranks = Math.max(2, Integer.parseInt(m.group(2)));
                return IntStream.range(0, ranks)
                        .mapToObj(r -> new Shard(r, ranks))
                        .toList();
            }
        }
        return List.of(WHOLE);
    }

    /** For messages; empty for all of it. */
    String owner() {
        return ranks == 1 ? "" : ": the share of rank " + rank + " of " + ranks;
    }

    /** What is wrong with a file of this name that belongs to the checkpoint of another step; empty for nothing. */
    String otherStep(Path folder, String whole, long step) throws IOException {
        if (ranks == 1) {
            return "";
        }
        try (ModelFile file = ModelFile.open(folder.resolve(file(whole)))) {
            String own = file.model().metadata().getOrDefault(STEP, String.valueOf(step));
            return own.equals(String.valueOf(step))
                    ? ""
                    : file(whole) + " is of step " + own + ", not " + step + owner();
        } catch (MalformedModelException e) {
            return ""; // its digest says so
        }
    }
}
