;; An extension of respool that shows each thing that one can do. It is asked about GET, SET and DEL of one key or more:
;;
;;   DEL …           becomes UNLINK …, so that servers free large values in the background
;;   SET secret:…    is refused
;;   GET motd        is answered here, and no server sees it
;;   all else        goes on
;;
;; A request comes as respool would send it to a server: "*2\r\n$3\r\nGET\r\n$4\r\nmotd\r\n".
(module
  ;; 256 KiB: the first page is for what is said, the others for the request.
  (memory (export "memory") 4)
  (data (i32.const 512) "ENOPERM only the vault writes keys of secret:")
  (data (i32.const 640) "A$18\r\nback at 12 o'clock\r\n")
  (data (i32.const 768) "$6\r\nUNLINK\r\n")

  ;; Where the request is to be written; 0: there is no room for so many bytes.
  (func (export "respool_buffer") (param $len i32) (result i32)
    (select (i32.const 65536) (i32.const 0) (i32.le_u (local.get $len) (i32.const 196608))))

  ;; The address behind the end of this line.
  (func $next_line (param $at i32) (result i32)
    (loop $more
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $more (i32.ne (i32.load8_u (i32.sub (local.get $at) (i32.const 1))) (i32.const 10))))
    (local.get $at))

  ;; The number that stands here.
  (func $number (param $at i32) (result i32)
    (local $number i32)
    (loop $more
      (local.set $number
        (i32.add (i32.mul (local.get $number) (i32.const 10))
                 (i32.sub (i32.load8_u (local.get $at)) (i32.const 48))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $more (i32.ne (i32.load8_u (local.get $at)) (i32.const 13))))
    (local.get $number))

  ;; What is said: these bytes.
  (func $said (param $at i32) (param $len i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $at)) (i64.const 32))
            (i64.extend_i32_u (local.get $len))))

  (func (export "respool_request") (param $at i32) (param $len i32) (result i64)
    (local $first i32) (local $name i32) (local $letter i32) (local $key_line i32) (local $key i32)
    (local.set $first (call $next_line (local.get $at)))
    (local.set $name (call $next_line (local.get $first)))
    ;; All three commands have three letters, and may come in capitals.
    (local.set $letter (i32.or (i32.load8_u (local.get $name)) (i32.const 32)))
    (local.set $key_line (i32.add (local.get $name) (i32.const 5)))
    (local.set $key (call $next_line (local.get $key_line)))

    ;; "d": the line with the number of arguments moves three bytes to the front, as UNLINK is so much longer.
    (if (i32.eq (local.get $letter) (i32.const 100)) (then
      (memory.copy
        (i32.sub (local.get $at) (i32.const 3)) (local.get $at)
        (i32.sub (local.get $first) (local.get $at)))
      (memory.copy (i32.sub (local.get $first) (i32.const 3)) (i32.const 768) (i32.const 12))
      (i32.store8 (i32.sub (local.get $at) (i32.const 4)) (i32.const 87))
      (return (call $said
        (i32.sub (local.get $at) (i32.const 4))
        (i32.add (local.get $len) (i32.const 4))))))

    ;; "s", and a key that begins with "secret:".
    (if (i32.and
          (i32.eq (local.get $letter) (i32.const 115))
          (i64.eq
            (i64.and (i64.load (local.get $key)) (i64.const 0x00ffffffffffffff))
            (i64.const 0x003a746572636573)))
      (then (return (call $said (i32.const 512) (i32.const 45)))))

    ;; "g", and a key that is "motd".
    (if (i32.and
          (i32.eq (local.get $letter) (i32.const 103))
          (i32.and
            (i32.eq (call $number (i32.add (local.get $key_line) (i32.const 1))) (i32.const 4))
            (i32.eq (i32.load (local.get $key)) (i32.const 0x64746f6d))))
      (then (return (call $said (i32.const 640) (i32.const 26)))))

    (i64.const 0)))
