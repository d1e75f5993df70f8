package dev.octet.spark.hadoop;

import java.io.IOException;
import java.net.URI;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.ProviderMismatchException;
import java.nio.file.WatchEvent;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** A path in one of Hadoop's file systems: names between slashes. As text an absolute one has its scheme in front. */
final class HadoopPath implements Path {
    private final HadoopTree tree;
    private final boolean absolute;
    private final List<String> names;

    private HadoopPath(HadoopTree tree, boolean absolute, List<String> names) {
        this.tree = tree;
        this.absolute = absolute;
        this.names = List.copyOf(names);
    }

    static HadoopPath of(HadoopTree tree, String text) {
        String rest = text.startsWith(tree.prefix() + "/")
                ? text.substring(tree.prefix().length())
                : text;
        return new HadoopPath(
                tree,
                rest.startsWith("/"),
                Arrays.stream(rest.split("/", -1)).filter(n -> !n.isEmpty()).toList());
    }

    /** The path as Hadoop takes it. */
    org.apache.hadoop.fs.Path inHadoop() {
        HadoopPath whole = toAbsolutePath().normalize();
        return new org.apache.hadoop.fs.Path(tree.files().getUri().getScheme(), authority(), whole.plain());
    }

    private @Nullable String authority() {
        return tree.files().getUri().getAuthority();
    }

    private String plain() {
        return (absolute ? "/" : "") + String.join("/", names);
    }

    private HadoopPath with(List<String> newNames) {
        return new HadoopPath(tree, absolute, newNames);
    }

    private HadoopPath own(Path other) {
        if (other instanceof HadoopPath path && path.tree.equals(tree)) {
            return path;
        }
        throw new ProviderMismatchException("'" + other + "' is not in " + tree.prefix());
    }

    @Override
    public HadoopTree getFileSystem() {
        return tree;
    }

    @Override
    public boolean isAbsolute() {
        return absolute;
    }

    @Override
    public @Nullable Path getRoot() {
        return absolute ? new HadoopPath(tree, true, List.of()) : null;
    }

    @Override
    public @Nullable Path getFileName() {
        return names.isEmpty() ? null : new HadoopPath(tree, false, List.of(names.getLast()));
    }

    @Override
    public @Nullable Path getParent() {
        return names.isEmpty() || (names.size() == 1 && !absolute) ? null : with(names.subList(0, names.size() - 1));
    }

    @Override
    public int getNameCount() {
        return names.size();
    }

    @Override
    public Path getName(int index) {
        return new HadoopPath(tree, false, List.of(names.get(index)));
    }

    @Override
    public Path subpath(int beginIndex, int endIndex) {
        return new HadoopPath(tree, false, names.subList(beginIndex, endIndex));
    }

    @Override
    public boolean startsWith(Path other) {
        return other instanceof HadoopPath path
                && path.tree.equals(tree)
                && path.absolute == absolute
                && path.names.size() <= names.size()
                && names.subList(0, path.names.size()).equals(path.names);
    }

    @Override
    public boolean endsWith(Path other) {
        if (!(other instanceof HadoopPath path) || !path.tree.equals(tree) || path.names.size() > names.size()) {
            return false;
        }
        boolean whole = path.names.size() == names.size();
        return (!path.absolute || (whole && absolute))
                && names.subList(names.size() - path.names.size(), names.size()).equals(path.names);
    }

    @Override
    public HadoopPath normalize() {
        List<String> kept = new ArrayList<>();
        for (String name : names) {
            boolean up = name.equals("..");
            if (up && !kept.isEmpty() && !kept.getLast().equals("..")) {
                kept.removeLast();
            } else if (!name.equals(".") && !(up && absolute)) {
                kept.add(name);
            }
        }
        return with(kept);
    }

    @Override
    public Path resolve(Path other) {
        HadoopPath path = own(other);
        if (path.absolute) {
            return path;
        }
        List<String> all = new ArrayList<>(names);
        all.addAll(path.names);
        return with(all);
    }

    @Override
    public Path relativize(Path other) {
        HadoopPath path = own(other);
        if (path.absolute != absolute) {
            throw new IllegalArgumentException("'" + this + "' and '" + other + "' have no common start");
        }
        int common = 0;
        while (common < Math.min(names.size(), path.names.size())
                && names.get(common).equals(path.names.get(common))) {
            common++;
        }
        List<String> way = new ArrayList<>();
        for (int i = common; i < names.size(); i++) {
            way.add("..");
        }
        way.addAll(path.names.subList(common, path.names.size()));
        return new HadoopPath(tree, false, way);
    }

    @Override
    public URI toUri() {
        return inHadoop().toUri();
    }

    @Override
    public HadoopPath toAbsolutePath() {
        return absolute
                ? this
                : HadoopPath.of(tree, tree.files().getWorkingDirectory().toUri().getPath() + "/" + plain());
    }

    @Override
    public Path toRealPath(LinkOption... options) throws IOException {
        HadoopPath whole = toAbsolutePath().normalize();
        if (!tree.files().exists(whole.inHadoop())) {
            throw new NoSuchFileException(toString());
        }
        return whole;
    }

    @Override
    public WatchKey register(WatchService watcher, WatchEvent.Kind<?>[] events, WatchEvent.Modifier... modifiers) {
        throw new UnsupportedOperationException("watching " + this);
    }

    @Override
    public int compareTo(Path other) {
        return toString().compareTo(other.toString());
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof HadoopPath path
                && path.tree.equals(tree)
                && path.absolute == absolute
                && path.names.equals(names);
    }

    @Override
    public int hashCode() {
        return Objects.hash(absolute, names);
    }

    @Override
    public String toString() {
        return absolute ? tree.prefix() + plain() : plain();
    }
}
