package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaSource;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** NVIDIA's offline compiler, used when nvrtc is not installed. */
final class Nvcc implements KernelCompiler {
    private static final Pattern RELEASE = Pattern.compile("\\bV(\\d+\\.\\d+\\.\\d+)");
    private static final Pattern ARCHITECTURE = Pattern.compile("compute_(\\d+)\\b");
    private static final long LONGEST_SECONDS = 300;

    private final Path program;
    private final String version;
    private final Set<Integer> architectures;

    /** Exit code and output of a process. */
    private record Answer(int code, String text) {}

    private Nvcc(Path program, String version, Set<Integer> architectures) {
        this.program = program;
        this.version = version;
        this.architectures = architectures;
    }

    /** Where to search for the program: {@code bin} of the CUDA installations, then {@code PATH}. */
    static List<Path> places(Map<String, String> environment, Path root) {
        List<Path> places = new ArrayList<>();
        LibraryPlaces.homes(environment, root).forEach(h -> places.add(h.resolve("bin")));
        for (String folder : environment.getOrDefault("PATH", "").split(File.pathSeparator, -1)) {
            LibraryPlaces.path(folder).ifPresent(places::add);
        }
        return places;
    }

    /** The first program found that reports its version. */
    static Optional<Nvcc> find(List<Path> places) {
        return places.stream()
                .map(p -> p.resolve("nvcc"))
                .filter(Files::isExecutable)
                .map(Nvcc::of)
                .flatMap(Optional::stream)
                .findFirst();
    }

    private static Optional<Nvcc> of(Path program) {
        try {
            Matcher release = RELEASE.matcher(
                    run(List.of(program.toString(), "--version")).text());
            Matcher known = ARCHITECTURE.matcher(
                    run(List.of(program.toString(), "--list-gpu-arch")).text());
            Set<Integer> set = new TreeSet<>();
            while (known.find()) {
                set.add(Integer.parseInt(known.group(1)));
            }
            return release.find() && !set.isEmpty()
                    ? Optional.of(new Nvcc(program, "nvcc " + release.group(1), set))
                    : Optional.empty();
        } catch (IOException e) {
            return Optional.empty();
        }
    }

    /** Path of the program. */
    Path program() {
        return program;
    }

    @Override
    public String version() {
        return version;
    }

    @Override
    public Set<Integer> architectures() {
        return architectures;
    }

    @Override
    public byte[] compile(CudaSource source, ComputeCapability architecture) throws CompileException {
        try {
            Path folder = Files.createTempDirectory("octet-nvcc");
            try {
                return compile(source, architecture, folder);
            } finally {
                try (var files = Files.list(folder)) {
                    for (Path file : files.toList()) {
                        Files.delete(file);
                    }
                }
                Files.delete(folder);
            }
        } catch (IOException e) {
            throw new UnavailableException(
                    "nvcc cannot be run: " + e,
                    program.toString(),
                    "check the space in " + System.getProperty("java.io.tmpdir"),
                    e);
        }
    }

    private byte[] compile(CudaSource source, ComputeCapability architecture, Path folder)
            throws IOException, CompileException {
        Files.writeString(folder.resolve(CudaSource.PRELUDE), CudaSource.prelude());
        Path in = Files.writeString(folder.resolve("kernel.cu"), source.text());
        Path out = folder.resolve("kernel.out");
        List<String> words = new ArrayList<>(List.of(
                program.toString(),
                architecture.ptx() ? "-ptx" : "-cubin",
                "-arch=" + architecture.option(),
                "-I" + folder,
                "-o",
                out.toString()));
        words.addAll(OPTIONS);
        words.addAll(KernelCompiler.macros(source));
        words.add(in.toString());
        Answer answer = run(words);
        if (answer.code() != 0) {
            String log = answer.text().replace(in.toString(), source.file()).replace(folder + File.separator, "");
            throw new CompileException(source, version, architecture, log);
        }
        return Files.readAllBytes(out);
    }

    private static Answer run(List<String> words) throws IOException {
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        process.getOutputStream().close();
        String text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        try {
            if (!process.waitFor(LONGEST_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new IOException(words.getFirst() + " did not end within " + LONGEST_SECONDS + " s");
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while " + words.getFirst() + " ran", e);
        }
        return new Answer(process.exitValue(), text);
    }
}
