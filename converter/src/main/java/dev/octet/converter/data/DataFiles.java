package dev.octet.converter.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.Sha256;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The files of a data set with rows: one {@code .jsonl} or {@code .parquet}, or all of a folder, in the order of their names. A folder may
 * hold splits in shards as Hugging Face names them, {@code train-00000-of-00003.parquet}: of one split, or {@code folder/train} names it.
 */
public final class DataFiles {
    private static final Pattern SHARD = Pattern.compile("(.+)-(\\d{5})-of-(\\d{5})\\.(jsonl|parquet)");

    private final Path path;
    private final List<Path> files;

    private DataFiles(Path path, List<Path> files) {
        this.path = path;
        this.files = List.copyOf(files);
    }

    /** Whether a path can name rows: by its ending, or a folder or a split of one. */
    public static boolean isRows(Path path) {
        return isFile(path) || Files.isDirectory(path) || isSplit(path);
    }

    /**
     * Whether a path names a split, the shards of which lie in its folder: {@code data/train} of {@code data/train-00000-of-00001.parquet}.
     */
    public static boolean isSplit(Path path) {
        Path folder = path.getParent();
        if (Files.exists(path) || folder == null || !Files.isDirectory(folder)) {
            return false;
        }
        try {
            return splits(rows(folder)).containsKey(String.valueOf(path.getFileName()));
        } catch (IOException _) {
            return false; // opening it will say why
        }
    }

    private static boolean isFile(Path path) {
        String name = path.toString().toLowerCase(Locale.ROOT);
        return name.endsWith(".jsonl") || name.endsWith(".parquet");
    }

    /**
     * Finds the files.
     *
     * @throws InvalidDataException when a folder has none, files of both endings, several splits, or lacks a shard
     * @throws IOException when a folder cannot be read
     */
    public static DataFiles of(Path path) throws IOException {
        if (Files.isRegularFile(path)) {
            return new DataFiles(path, List.of(path));
        }
        boolean folder = Files.isDirectory(path);
        if (!folder && !isSplit(path)) {
            throw new NoSuchFileException(path.toString());
        }
        List<Path> all = rows(folder ? path : Objects.requireNonNull(path.getParent()));
        Map<String, List<Path>> splits = splits(all);
        if (!folder) {
            all = Objects.requireNonNull(splits.get(String.valueOf(path.getFileName())));
        } else if (splits.size() > 1) {
            throw new InvalidDataException(
                    "the folder has the splits " + splits.keySet(),
                    path.toString(),
                    "name one of them: "
                            + path.resolve(
                                    splits.containsKey("train")
                                            ? "train"
                                            : splits.keySet().iterator().next()));
        }
        if (all.isEmpty()) {
            throw new InvalidDataException(
                    "the folder has neither .jsonl nor .parquet files",
                    path.toString(),
                    "name the folder that the files lie in; those of folders below are not read");
        }
        long json = all.stream().filter(f -> f.toString().endsWith(".jsonl")).count();
        if (json > 0 && json < all.size()) {
            throw new InvalidDataException(
                    "the folder has .jsonl and .parquet files",
                    path.toString(),
                    "leave one kind there, or the same samples may be read twice");
        }
        requireAllShards(all, path);
        return new DataFiles(path, all);
    }

    private static List<Path> rows(Path folder) throws IOException {
        try (Stream<Path> list = Files.list(folder)) {
            return list.filter(f -> isFile(f) && Files.isRegularFile(f))
                    .filter(f -> !String.valueOf(f.getFileName()).startsWith("."))
                    .sorted((a, b) -> String.valueOf(a.getFileName()).compareTo(String.valueOf(b.getFileName())))
                    .toList();
        }
    }

    private static Map<String, List<Path>> splits(List<Path> files) {
        Map<String, List<Path>> splits = new TreeMap<>();
        for (Path file : files) {
            Matcher m = SHARD.matcher(String.valueOf(file.getFileName()));
            if (m.matches()) {
                splits.computeIfAbsent(m.group(1), _ -> new ArrayList<>()).add(file);
            }
        }
        return splits;
    }

    private static void requireAllShards(List<Path> files, Path path) {
        Map<String, Integer> seen = new TreeMap<>();
        for (Path file : files) {
            Matcher m = SHARD.matcher(String.valueOf(file.getFileName()));
            if (m.matches()) {
                int number = Integer.parseInt(m.group(2));
                int expected = seen.merge(m.group(1) + " of " + m.group(3), 1, Integer::sum) - 1;
                boolean last = number + 1 == Integer.parseInt(m.group(3));
                if (number != expected) {
                    throw missing(path, m, expected);
                }
                if (last) {
                    seen.remove(m.group(1) + " of " + m.group(3));
                }
            }
        }
        if (!seen.isEmpty()) {
            Map.Entry<String, Integer> split = seen.entrySet().iterator().next();
            throw new InvalidDataException(
                    "shard " + String.format(Locale.ROOT, "%05d", split.getValue()) + " of split " + split.getKey()
                            + " is missing",
                    path.toString(),
                    "download it, or rename the files if the data set is to be these");
        }
    }

    private static InvalidDataException missing(Path path, Matcher m, int number) {
        return new InvalidDataException(
                String.format(Locale.ROOT, "shard %05d of split %s of %s is missing", number, m.group(1), m.group(3)),
                path.toString(),
                "download it, or rename the files if the data set is to be these");
    }

    /** The name of the file or folder, for messages. */
    public String name() {
        return String.valueOf(Objects.requireNonNullElse(path.getFileName(), path));
    }

    /** The path as it was given. */
    public Path path() {
        return path;
    }

    /** The files, in order. */
    public List<Path> files() {
        return files;
    }

    /** SHA-256 over the files in their order. */
    String digest() throws IOException {
        List<String> digests = new ArrayList<>(List.of("rows"));
        for (Path file : files) {
            digests.add(Sha256.of(file));
        }
        return Sha256.of(digests.toArray(String[]::new));
    }

    /** Reads all rows, file after file; as {@link Rows#read}. */
    void read(Set<String> columns, Rows.Visitor visitor) throws IOException {
        for (Path file : files) {
            boolean[] on = {true};
            Rows rows = file.toString().toLowerCase(Locale.ROOT).endsWith(".parquet")
                    ? new ParquetRows(file)
                    : new JsonRows(file);
            rows.read(columns, row -> on[0] = visitor.row(row));
            if (!on[0]) {
                return;
            }
        }
    }
}
