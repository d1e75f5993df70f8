package dev.octet.trainer.device.cuda;

import java.io.File;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Where to search for CUDA's libraries, in order: {@code OCTET_CUDA_HOME}, {@code CUDA_HOME}, the system's loader ({@code LD_LIBRARY_PATH},
 * its cache), the usual folders, pip packages: of the environment that is activated, of the one whose {@code python3} comes first on the
 * PATH, of the system, and of environments at the places where images of machines with a GPU have them.
 */
record LibraryPlaces(List<Place> places) {
    /** The environment variable searched first. */
    static final String OWN = "OCTET_CUDA_HOME";

    private static final int MOST_LINKS = 8;

    /** Library folders within an installation; last the folder itself. */
    private static final List<String> BELOW = List.of("lib64", "lib", "targets/x86_64-linux/lib", "");

    private static final List<String> USUAL = List.of(
            "usr/local/cuda/lib64",
            "usr/local/cuda-*/lib64",
            "usr/lib/x86_64-linux-gnu",
            "usr/lib64",
            "opt/cuda/lib64",
            "opt/cuda-*/lib64",
            // driver libraries from outside: containers and the Linux of Windows
            "usr/local/nvidia/lib64",
            "usr/lib/wsl/lib");

    private static final List<String> PYTHONS = List.of(
            "usr/local/lib/python3*/dist-packages",
            "usr/local/lib/python3*/site-packages",
            "usr/lib/python3*/site-packages",
            "usr/lib/python3/dist-packages",
            "opt/conda/lib/python3*/site-packages");

    /** Virtual environments that need not be activated. */
    private static final List<String> ENVIRONMENTS = List.of(
            "opt/venv", "opt/*/.venv", "opt/*/venv", "opt/conda/envs/*", "venv", "workspace/.venv", "usr/local/venv");

    /** Those below the home folder. */
    private static final List<String> OWN_ENVIRONMENTS =
            List.of(".venv", "venv", "miniconda3", "miniconda3/envs/*", "miniforge3", "miniforge3/envs/*");

    private static final String PACKAGES = "lib/python3*/site-packages";

    /** Library folders within a folder of Python packages. */
    private static final String PIP = "nvidia/*/lib";

    /**
     * A folder, or the search path of the system's loader.
     *
     * @param origin why it is searched: an environment variable, or a description
     * @param folder null for the loader
     */
    record Place(String origin, @Nullable Path folder) {
        @Override
        public String toString() {
            return folder == null ? origin : folder.toString();
        }
    }

    /** The places of this system. */
    static LibraryPlaces ofSystem() {
        return of(System.getenv(), Path.of("/"));
    }

    /** The places of a system with root folder {@code root}. */
    static LibraryPlaces of(Map<String, String> environment, Path root) {
        List<Place> places = new ArrayList<>();
        for (String variable : List.of(OWN, "CUDA_HOME")) {
            folder(environment, variable)
                    .ifPresent(home -> BELOW.forEach(below -> {
                        Path folder = below.isEmpty() ? home : home.resolve(below);
                        if (Files.isDirectory(folder)) {
                            places.add(new Place(variable, folder));
                        } else if (below.isEmpty()) {
                            places.add(new Place(variable, home));
                        }
                    }));
        }
        places.add(new Place("the system's loader", null));
        USUAL.forEach(p -> matching(root, p).forEach(f -> places.add(new Place("usual folder", f))));
        pythons(environment, root)
                .forEach(site -> matching(site, PIP).forEach(f -> places.add(new Place("package of pip", f))));
        return new LibraryPlaces(places.stream().distinct().toList());
    }

    /** Installations that may contain {@code bin/nvcc}, in search order. */
    static List<Path> homes(Map<String, String> environment, Path root) {
        List<Path> homes = new ArrayList<>();
        folder(environment, OWN).ifPresent(homes::add);
        folder(environment, "CUDA_HOME").ifPresent(homes::add);
        for (String usual : List.of("usr/local/cuda", "usr/local/cuda-*", "opt/cuda", "opt/cuda-*")) {
            homes.addAll(matching(root, usual));
        }
        return homes;
    }

    /** State of the environment variable, for messages. */
    static String hint(Map<String, String> environment) {
        return folder(environment, OWN).isEmpty() ? OWN + " is not set" : OWN + "=" + environment.get(OWN);
    }

    private static List<Path> pythons(Map<String, String> environment, Path root) {
        List<Path> sites = new ArrayList<>();
        for (String variable : List.of("VIRTUAL_ENV", "CONDA_PREFIX")) {
            folder(environment, variable).ifPresent(e -> sites.addAll(matching(e, PACKAGES)));
        }
        pythonOnPath(environment).ifPresent(e -> sites.addAll(matching(e, PACKAGES)));
        Optional<Path> home = folder(environment, "HOME");
        home.ifPresent(h -> sites.addAll(matching(h, ".local/" + PACKAGES)));
        PYTHONS.forEach(p -> sites.addAll(matching(root, p)));
        ENVIRONMENTS.forEach(e -> environments(root, e).forEach(v -> sites.addAll(matching(v, PACKAGES))));
        home.ifPresent(h ->
                OWN_ENVIRONMENTS.forEach(e -> environments(h, e).forEach(v -> sites.addAll(matching(v, PACKAGES)))));
        return sites;
    }

    /** The environment that the {@code python3} that comes first on the PATH belongs to, also without activation. */
    private static Optional<Path> pythonOnPath(Map<String, String> environment) {
        for (String folder : environment.getOrDefault("PATH", "").split(File.pathSeparator, -1)) {
            Optional<Path> bin = path(folder).filter(p -> Files.isExecutable(p.resolve("python3")));
            if (bin.isPresent()) {
                return bin.map(Path::getParent)
                        .filter(LibraryPlaces::isEnvironment)
                        .or(() -> linked(bin.get()));
            }
        }
        return Optional.empty();
    }

    /** The environment of a {@code python3} that is a link into its folder, as from {@code /usr/local/bin}. */
    private static Optional<Path> linked(Path bin) {
        Path python = bin.resolve("python3");
        for (int links = 0; links < MOST_LINKS && Files.isSymbolicLink(python); links++) {
            try {
                python = python.resolveSibling(Files.readSymbolicLink(python)).normalize();
            } catch (IOException e) {
                return Optional.empty();
            }
            Optional<Path> home = Optional.ofNullable(python.getParent()).map(Path::getParent);
            if (home.filter(LibraryPlaces::isEnvironment).isPresent()) {
                return home;
            }
        }
        return Optional.empty();
    }

    /** Environments of Python that match a pattern; other folders are left alone. */
    private static List<Path> environments(Path from, String pattern) {
        return matching(from, pattern).stream()
                .filter(LibraryPlaces::isEnvironment)
                .toList();
    }

    /** Whether a folder is a virtual environment (PEP 405) or one of conda. */
    private static boolean isEnvironment(Path folder) {
        return Files.isRegularFile(folder.resolve("pyvenv.cfg")) || Files.isDirectory(folder.resolve("conda-meta"));
    }

    private static Optional<Path> folder(Map<String, String> environment, String variable) {
        return path(environment.getOrDefault(variable, ""));
    }

    /** The path of a text; empty if the text is empty or not a valid path. */
    static Optional<Path> path(String text) {
        try {
            return text.isEmpty() ? Optional.empty() : Optional.of(Path.of(text));
        } catch (InvalidPathException e) {
            return Optional.empty();
        }
    }

    /**
     * Existing folders below {@code from} that match a pattern (a star matches within one name); highest name first, as it is the newest
     * version.
     */
    private static List<Path> matching(Path from, String pattern) {
        List<Path> found = List.of(from);
        for (String part : pattern.split("/", -1)) {
            List<Path> next = new ArrayList<>();
            for (Path folder : found) {
                next.addAll(part.contains("*") ? children(folder, part) : List.of(folder.resolve(part)));
            }
            found = next;
        }
        return found.stream().filter(Files::isDirectory).toList();
    }

    /** Children of a folder whose names match, highest version first. */
    static List<Path> children(Path folder, String glob) {
        List<Path> children = new ArrayList<>();
        if (!Files.isDirectory(folder)) {
            return children;
        }
        try (DirectoryStream<Path> stream = Files.newDirectoryStream(folder, glob)) {
            stream.forEach(children::add);
        } catch (IOException | DirectoryIteratorException e) {
            return children; // an unreadable folder has nothing to load
        }
        children.sort(Comparator.comparing(Path::toString, LibraryPlaces::compareVersions)
                .reversed());
        return children;
    }

    /** Compares names with runs of digits as numbers: {@code cuda-12.10} is newer than {@code cuda-12.9}. */
    static int compareVersions(String a, String b) {
        String[] left = a.split("(?<=\\D)(?=\\d)|(?<=\\d)(?=\\D)", -1);
        String[] right = b.split("(?<=\\D)(?=\\d)|(?<=\\d)(?=\\D)", -1);
        for (int i = 0; i < Math.min(left.length, right.length); i++) {
            boolean numbers = left[i].matches("\\d{1,9}") && right[i].matches("\\d{1,9}");
            int order = numbers
                    ? Integer.compare(Integer.parseInt(left[i]), Integer.parseInt(right[i]))
                    : left[i].compareTo(right[i]);
            if (order != 0) {
                return order;
            }
        }
        return Integer.compare(left.length, right.length);
    }
}
