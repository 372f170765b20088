// Leads connections to the port 6379 to RESPOOL_PORT, so that a suite which has that port
// written in it runs against a server anywhere.
const { Socket } = require('node:net');

const ASKED = 6379;
const port = Number(process.env.RESPOOL_PORT);
const connect = Socket.prototype.connect;

Socket.prototype.connect = function (...words) {
  // net.createConnection hands over what it made of its arguments, as a list with the options in front.
  const list = Array.isArray(words[0]) ? words[0] : words;
  if (typeof list[0] === 'object' && Number(list[0]?.port) === ASKED) list[0] = { ...list[0], port };
  else if (Number(list[0]) === ASKED) list[0] = port;
  return connect.apply(this, words);
};
