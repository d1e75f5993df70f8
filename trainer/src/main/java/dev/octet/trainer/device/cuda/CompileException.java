package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaSource;
import java.io.Serial;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A compiler rejected a kernel source. The message is the compiler's log, with the source line after each position. */
final class CompileException extends Exception {
    @Serial
    private static final long serialVersionUID = 1L;

    /** Positions as nvrtc and nvcc write them: {@code gelu.cu(12): error: identifier "x" is undefined}. */
    private static final Pattern PLACE =
            Pattern.compile("([^\\s(]+)\\((\\d+)\\): (?:catastrophic )?(?:error|warning|note).*");

    private final String name;
    private final String compiler;

    CompileException(CudaSource source, String compiler, ComputeCapability architecture, String log) {
        super(withLines(source, log));
        this.name = source.toString();
        this.compiler = compiler + " for " + architecture.option();
    }

    private static String withLines(CudaSource source, String log) {
        StringBuilder text = new StringBuilder();
        for (String line : log.strip().lines().toList()) {
            text.append(line).append('\n');
            Matcher m = PLACE.matcher(line);
            if (m.matches()) {
                boolean prelude = m.group(1).endsWith(CudaSource.PRELUDE);
                List<String> lines =
                        (prelude ? CudaSource.prelude() : source.text()).lines().toList();
                int number = Integer.parseInt(m.group(2));
                if (number >= 1 && number <= lines.size()) {
                    text.append("    ")
                            .append(number)
                            .append(" | ")
                            .append(lines.get(number - 1))
                            .append('\n');
                }
            }
        }
        return text.toString();
    }

    /** The compiler's log with source lines. */
    String log() {
        return String.valueOf(getMessage());
    }

    /** For the user: the first error with its line, and this exception with the whole log as cause. */
    UnavailableException unavailable() {
        List<String> lines = log().lines().toList();
        int error = 0;
        while (error < lines.size() - 1 && !lines.get(error).contains("error")) {
            error++;
        }
        String first = String.join(" ", lines.subList(error, Math.min(lines.size(), error + 2)));
        return new UnavailableException(
                "kernel source " + name + " does not compile: " + first,
                compiler,
                "report it with the compiler's version (OCTET_DEBUG=1 prints the whole log); OCTET_CUDA_HOME may point"
                        + " to another version; or use --device cpu",
                this);
    }
}
