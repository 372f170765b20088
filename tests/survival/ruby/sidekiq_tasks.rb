# Sidekiq with its defaults, two threads. ../python/shared.py explains what the programs share.

require "sidekiq"

place = ENV.fetch("SURVIVAL_URL")
kind, _, rest = place.partition("://")
nodes, _, group = rest.partition("/")
host, port = nodes.split(",").first.split(":")
servers = { url: "redis://#{host}:#{port}" }
if kind == "redis-sentinel"
  servers = { url: "redis://#{group}", sentinels: [{ host:, port: port.to_i }], role: :master }
end
Sidekiq.configure_server { |config| config.redis = servers }
Sidekiq.configure_client { |config| config.redis = servers }

NAME = "{survival}"

class Record
  include Sidekiq::Worker
  sidekiq_options queue: NAME

  def perform(number)
    File.write(ENV.fetch("SURVIVAL_DONE"), "#{number}\n", mode: "a")
  end
end

def attempted(number)
  Record.perform_async(number)
  true
rescue StandardError => error
  puts "error #{error.class}: #{error.message.split.join(" ")}"
  false
end

def produce(tasks, pace_s)
  puts "version #{Sidekiq::VERSION}"
  tasks.times do |number|
    sleep(pace_s) until attempted(number)
    puts "queued #{number}"
    sleep(pace_s)
  end
  puts "end"
end

$stdout.sync = true
case ARGV
in ["worker"] then exec("sidekiq", "--require", __FILE__, "--queue", NAME, "--concurrency", "2")
in ["producer", tasks, pace_ms] then produce(tasks.to_i, pace_ms.to_i / 1000.0)
else nil # Sidekiq itself has read this file.
end
